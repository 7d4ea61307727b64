// SPDX-License-Identifier: Apache-2.0
// Clients of ioredis, each with keys of its own, until the standard input ends; then what they have seen, as JSON.
// usage: ioredis.js MODULES HOST:PORT...
'use strict';
const { createRequire } = require('module');
const Redis = createRequire(process.argv[2] + '/')('ioredis');

const nodes = process.argv.slice(3).map((node) => ({ host: node.split(':')[0], port: Number(node.split(':')[1]) }));
const told = { operations: 0, errors: {}, wrong: [], acknowledged: {}, tried: {}, scans: 0 };
let isOver = false;

function note(error) {
  const text = /Connection is closed|ECONN|MaxRetries|timed out|Stream isn't|max retries/i.test(error.message) ? 'connection' : error.message.slice(0, 60);
  told.errors[text] = (told.errors[text] || 0) + 1;
}

async function run(number) {
  const client = new Redis({ ...nodes[number % nodes.length], maxRetriesPerRequest: 1, retryStrategy: () => 100, commandTimeout: 20000 });
  client.on('error', () => {});
  for (let i = 0; !isOver; i++) {
    const key = `ioredis-${number}-${i % 50}`;
    const value = (told.tried[key] || 0) + 1;
    try {
      told.tried[key] = value;
      const replies = await client.pipeline().set(key, value, 'EX', 3600).get(key).ttl(key).exec();
      replies.filter(([error]) => error).forEach(([error]) => note(error));
      const [[, set], [, got], [, left]] = replies;
      told.operations += 3;
      if (set === 'OK') told.acknowledged[key] = value;
      if (set === 'OK' && got !== null && Number(got) > value) told.wrong.push(`${key} is ${got}, ${value} was written`);
      if (set === 'OK' && left !== undefined && left !== -2 && !(left > 3500 && left <= 3600)) told.wrong.push(`${key} expires in ${left}`);
    } catch (error) {
      note(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  client.disconnect();
}

async function scan() {
  const client = new Redis({ ...nodes[0], maxRetriesPerRequest: 1, retryStrategy: () => 100, commandTimeout: 20000 });
  client.on('error', () => {});
  while (!isOver) {
    try {
      const before = Object.keys(told.acknowledged);
      const found = new Set();
      for await (const keys of client.scanStream({ match: 'ioredis-*', count: 200 })) keys.forEach((key) => found.add(key));
      told.scans++;
      for (const key of before) if (!found.has(key)) told.wrong.push(`a scan missed ${key}`);
    } catch (error) {
      note(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  client.disconnect();
}

process.stdin.resume();
process.stdin.on('end', () => { isOver = true; });
Promise.all([...Array(6).keys()].map(run).concat([scan()])).then(() => console.log(JSON.stringify(told)));

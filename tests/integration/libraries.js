// SPDX-License-Identifier: Apache-2.0
// A pop, as a receiver got it, in the hands of the official libraries of Standard Webhooks and CloudEvents.
const { Webhook } = require("standardwebhooks");
const { HTTP } = require("cloudevents");

const pops = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const { secret, headers, body } of pops) {
    new Webhook(secret).verify(body, headers); // throws if it is not signed by that secret
    let is_refused = false;
    try {
        new Webhook(secret).verify(body + " ", headers);
    } catch (error) {
        is_refused = true;
    }
    if (!is_refused) throw new Error("a changed body was taken for a signed one");
    const event = HTTP.toEvent({ headers, body });
    event.validate();
    console.log(JSON.stringify({ id: event.id, type: event.type, source: event.source, subject: event.subject, time: event.time, data: event.data }));
}

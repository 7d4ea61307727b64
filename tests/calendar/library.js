// SPDX-License-Identifier: Apache-2.0
// Expressions from standard input, one a line; the next five instants of each in UTC, as a line of JSON: null if it is refused.
const { CronExpressionParser } = require(process.argv[2] + "/node_modules/cron-parser");
const lines = require("fs").readFileSync(0, "utf8").trim().split("\n");
for (const line of lines) {
    let instants = null;
    try {
        const expression = CronExpressionParser.parse(line, { currentDate: process.argv[3], tz: "UTC" });
        instants = expression.take(5).map((one) => one.toDate().toISOString());
    } catch (error) {
        if (!/duplicate/i.test(error.message)) throw error;
    }
    console.log(JSON.stringify(instants));
}

// A payment service that knows nothing of idempotency keys: each POST /payments charges a card. once
// stands in front of it and lets each charge happen once.
//
//   node service.js [PORT] [FILE]
//
// Each line of the file is a charge. Some cards make trouble: card-late is charged at once and
// answered 3 s later, card-lost is charged and its connection cut without an answer, card-none is
// refused before anything is charged.

"use strict";

const fs = require("node:fs");
const http = require("node:http");

const port = Number(process.argv[2] ?? 3000);
const file = process.argv[3] ?? "charges.txt";
const MAX_BODY = 1 << 20;
const LATE = 3000; // milliseconds

// Whose token it is. A token changes; the account stays.
const accounts = { "Bearer token-of-acct-1": "acct-1", "Bearer next-token-of-acct-1": "acct-1" };

const server = http.createServer(async (req, res) => {
  const account = accounts[req.headers.authorization];
  if (!account) return answer(res, 401, { error: "who are you?" });
  if (req.url === "/whoami") {
    res.setHeader("X-Account-Id", account); // once asks this before a claim and before a replay
    return answer(res, 200, {});
  }
  if (req.method !== "POST" || req.url !== "/payments") return answer(res, 404, {});
  const { card, cents } = await read(req);
  if (!card || !(cents > 0)) return answer(res, 422, { error: "a payment needs a card and cents" });
  if (card === "card-none") return answer(res, 503, { error: "try again later" }); // nothing happened
  const id = charge(account, card, cents);
  if (card === "card-lost") return req.socket.destroy();
  if (card === "card-late") await new Promise((resolve) => setTimeout(resolve, LATE));
  answer(res, 201, { id, card, cents });
});

// charge books a charge, durably, and returns its number.
function charge(account, card, cents) {
  const fd = fs.openSync(file, "a+");
  const id = "ch_" + (fs.readFileSync(file, "utf8").split("\n").length);
  fs.writeSync(fd, `${id} ${account} ${card} ${cents}\n`);
  fs.fsyncSync(fd);
  fs.closeSync(fd);
  return id;
}

// read returns the body of a request as JSON; {} for one that is none, or too large.
async function read(req) {
  let text = "";
  try {
    for await (const piece of req) {
      text += piece;
      if (text.length > MAX_BODY) return {};
    }
    return JSON.parse(text) ?? {};
  } catch {
    return {}; // it broke off, or is no JSON
  }
}

function answer(res, status, value) {
  res.writeHead(status, { "Content-Type": "application/json" });
  res.end(JSON.stringify(value) + "\n");
}

server.listen(port, "127.0.0.1", () => {
  console.log(`service on http://127.0.0.1:${server.address().port}`);
});

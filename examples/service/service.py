"""A service that books payments, each once, however often it is called.

    python3 service.py [PORT] [DATABASE]

once calls it with the same Idempotency-Key in every try of a callback. The service keeps that key in
the transaction in which it books: a call that comes again finds it, and books nothing.
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

MAX_BODY = 1 << 20

db = sqlite3.connect(sys.argv[2] if len(sys.argv) > 2 else "balances.db")
db.executescript("""
    CREATE TABLE IF NOT EXISTS worked (key TEXT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS balances
        (account TEXT PRIMARY KEY, cents INTEGER NOT NULL, payments INTEGER NOT NULL);
""")


class Service(BaseHTTPRequestHandler):
    timeout = 10  # seconds that a caller may be silent

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            return self.answer(413)
        key = self.headers.get("Idempotency-Key")
        try:
            payment = json.loads(self.rfile.read(length))
            account, cents = payment["account"], payment["cents"]
        except (ValueError, KeyError, TypeError):
            return self.answer(422)  # no later try makes it right: the callback is a dead letter
        if not key or not isinstance(cents, int) or cents <= 0:
            return self.answer(422)
        with db:  # one transaction: the key and the booking, or neither
            new = db.execute("INSERT OR IGNORE INTO worked VALUES (?)", (key,)).rowcount
            if new:
                db.execute(
                    """INSERT INTO balances VALUES (?1, ?2, 1) ON CONFLICT (account) DO UPDATE
                       SET cents = cents + ?2, payments = payments + 1""",
                    (account, cents),
                )
        self.answer(204)  # 2xx: the callback is done

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Service)
    print(f"service on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()

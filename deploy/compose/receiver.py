"""Prints what it is sent. A receiver of yours would keep the row with the highest _sm_version of each key."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(self.path, self.headers["Idempotency-Key"], body.decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("", 8080), Receiver).serve_forever()

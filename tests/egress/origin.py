"""origin.py ADDRESS PORT DIRECTORY [CERTIFICATE]: serve a directory by HTTP/1.1, also to absolute targets.

Prints a line when it listens. The certificate file has its key in it as well.
"""
import hashlib
import http.server
import ssl
import sys
import urllib.parse


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def translate_path(self, path):
        # RFC 9112 §3.2.2: a server takes the absolute form as well.
        return super().translate_path(urllib.parse.urlsplit(path).path)

    def do_GET(self):
        if urllib.parse.urlsplit(self.path).path != "/whoami":
            return super().do_GET()
        said = self.headers.get("Authorization", "")
        # What came, and a digest of it, which says what came where that is struck out.
        body = f"{said} {hashlib.sha256(said.encode()).hexdigest()}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main(address, port, directory, certificate=None):
    server = http.server.ThreadingHTTPServer(
        (address, int(port)), lambda *a: Handler(*a, directory=directory)
    )
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


main(*sys.argv[1:])

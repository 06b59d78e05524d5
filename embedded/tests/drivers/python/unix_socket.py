"""python-arango over a Unix socket: an HTTP client whose connections go to a file."""

import socket

from arango.http import DefaultHTTPClient
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection


class UnixSocketHTTPClient(DefaultHTTPClient):
    """Give it to `ArangoClient(hosts="http://localhost", http_client=UnixSocketHTTPClient(path))`."""

    def __init__(self, path, request_timeout=60):
        super().__init__(request_timeout=request_timeout)

        class Connection(HTTPConnection):
            def connect(self):
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.settimeout(request_timeout)
                self.sock.connect(str(path))

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        class Adapter(HTTPAdapter):
            pool = Pool("localhost", maxsize=10)

            def get_connection_with_tls_context(self, request, verify, proxies=None, cert=None):
                return self.pool

        self._adapter = Adapter()

    def create_session(self, host):
        session = super().create_session(host)
        session.mount("http://", self._adapter)
        return session

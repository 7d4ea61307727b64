# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, by openssl: an authority, and what it has signed."""

import subprocess
from pathlib import Path


def run(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cert, self.key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out", self.cert, "-subj", f"/CN={name}", "-days", "30")

    def sign(self, name, *addresses, days=30):
        """A certificate for these addresses, and its key; days below 0: it has expired."""
        cert, key, request, extra = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extra.write_text("subjectAltName=" + ",".join(f"IP:{at}" if at[0].isdigit() else f"DNS:{at}" for at in addresses) + "\n")
        run("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-out", cert, "-days", days, "-extfile", extra)
        return cert, key

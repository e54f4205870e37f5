"""Makes the identities of `deploy/compose.yaml`: a CA, certificates and keys. Runs before all.

They are development identities: whoever has the volume has them. In production certificates come
from your own CA or SPIRE, and tokens from your own identity provider.

    python prepare.py FOLDER
"""

import sys
from pathlib import Path

from sidegate.development.ca import Leaf, utc_now
from sidegate.development.state import State

DOMAIN = "spiffe://sidegate-dev"
LEAVES = (
    Leaf("core", f"{DOMAIN}/core", server=True, client=True, hosts=("core",)),
    Leaf("gatekeeper", f"{DOMAIN}/gatekeeper", server=True, client=True, hosts=("gatekeeper",)),
    Leaf("issuer", f"{DOMAIN}/issuer", server=True, client=False, hosts=("issuer",)),
    Leaf("shop", f"{DOMAIN}/app/shop", server=False, client=True),
    Leaf("mailer", f"{DOMAIN}/app/mailer", server=False, client=True),
)


def main() -> None:
    """Make what is missing; what is there and will last a while stays."""
    state = State(Path(sys.argv[1]))
    state.make_folders()
    state.make_keys()
    issued = state.make_certificates(utc_now(), LEAVES)
    print(f"identities: {', '.join(issued) or 'all there'}")


if __name__ == "__main__":
    main()

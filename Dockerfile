# One file, one target per service:
#
#     docker build --target sidecar --tag sidegate-sidecar .
#
# Targets: core, gatekeeper, sidecar, issuer (development only), audit. A service reads its
# configuration from /etc/sidegate, which is mounted, and writes to /var/lib/sidegate and nowhere
# else, so it runs with a read-only root file system and as any user that owns that folder.
#
# The tag is exact. To pin the very bytes, build with the digest that your registry shows:
# --build-arg PYTHON_IMAGE=python:3.13.9-slim-bookworm@sha256:…
ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

# ---- what Sidegate runs with: hash-pinned wheels, and the packages themselves --------------------
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY requirements/runtime.txt requirements/
RUN python -m venv /opt/sidegate \
    && /opt/sidegate/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY log_format/ log_format/
COPY hosting/ hosting/
COPY core_log/ core_log/
COPY gatekeeper/ gatekeeper/
COPY sidecar/ sidecar/
COPY spark/ spark/
COPY sidegate/ sidegate/
RUN /opt/sidegate/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

# What only an installation needs is left behind.
FROM build AS trimmed
RUN /opt/sidegate/bin/pip uninstall --yes setuptools pip \
    && /opt/sidegate/bin/python -m compileall -q /opt/sidegate/lib

# ---- the same for the audit, which needs Spark, Arrow and a Java runtime besides -----------------
FROM build AS audit-build
COPY requirements/audit.txt requirements/
RUN /opt/sidegate/bin/pip install --no-cache-dir --require-hashes -r requirements/audit.txt \
    && /opt/sidegate/bin/pip uninstall --yes setuptools pip

# ---- what all images share ----------------------------------------------------------------------
FROM ${PYTHON_IMAGE} AS service
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/sidegate sidegate
USER 10001
WORKDIR /var/lib/sidegate
ENV PATH=/opt/sidegate/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/sidegate

FROM service AS core
COPY --from=trimmed /opt/sidegate /opt/sidegate
EXPOSE 7443 7444
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 \
    CMD ["sidegate", "health", "http://127.0.0.1:7444"]
ENTRYPOINT ["sidegate", "core", "--config", "/etc/sidegate/core.yaml"]

FROM service AS gatekeeper
COPY --from=trimmed /opt/sidegate /opt/sidegate
EXPOSE 8443 8445
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
    CMD ["sidegate", "health", "http://127.0.0.1:8445"]
ENTRYPOINT ["sidegate", "gatekeeper", "--config", "/etc/sidegate/gatekeeper.yaml"]

FROM service AS sidecar
COPY --from=trimmed /opt/sidegate /opt/sidegate
EXPOSE 9000 9002
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 \
    CMD ["sidegate", "health", "http://127.0.0.1:9000"]
ENTRYPOINT ["sidegate", "sidecar", "--config", "/etc/sidegate/sidecar.yaml"]

# An identity provider for development and for deploy/compose.yaml; it refuses to run in production.
FROM service AS issuer
COPY --from=trimmed /opt/sidegate /opt/sidegate
EXPOSE 8446
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 \
    CMD ["sidegate", "health", "https://127.0.0.1:8446", "--ca", "/etc/sidegate/ca/ca.pem"]
ENTRYPOINT ["sidegate", "issuer", "--config", "/etc/sidegate/issuer.yaml"]

# Runs once, makes its report and ends; so it has no health to be asked for.
FROM service AS audit
COPY --from=audit-build /opt/sidegate /opt/sidegate
HEALTHCHECK NONE
ENTRYPOINT ["sidegate", "audit"]
CMD ["report", "--help"]

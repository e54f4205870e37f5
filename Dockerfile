# One file, one target per service: docker build --target sidecar .
# The images differ only in what they run; a service's configuration is mounted at /etc/sidegate.
FROM python:3.13-slim AS build
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

FROM python:3.13-slim AS service
COPY --from=build /opt/sidegate /opt/sidegate
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/sidegate sidegate
USER 10001
WORKDIR /var/lib/sidegate
ENV PATH=/opt/sidegate/bin:$PATH PYTHONUNBUFFERED=1
VOLUME /var/lib/sidegate

FROM service AS core
EXPOSE 7443 7444
ENTRYPOINT ["sidegate", "core", "--config", "/etc/sidegate/core.yaml"]

FROM service AS gatekeeper
EXPOSE 8443 8445
ENTRYPOINT ["sidegate", "gatekeeper", "--config", "/etc/sidegate/gatekeeper.yaml"]

FROM service AS sidecar
EXPOSE 9000
ENTRYPOINT ["sidegate", "sidecar", "--config", "/etc/sidegate/sidecar.yaml"]

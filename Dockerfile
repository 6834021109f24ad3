# seqd in a container: one static binary, no shell, user 65532.
#
#   docker build --build-arg VERSION=v1.2.3 --build-arg REVISION=$(git rev-parse HEAD) -t seqd .
#   docker run -d --name seqd -p 127.0.0.1:8080:8080 -v seqd-data:/var/lib/seqd \
#     -e SEQD_AUTH_MODE=none seqd
#
# SEQD_AUTH_MODE=none is a decision that the image does not make for you. The loopback address of a
# container cannot be reached from outside, so the image listens on 0.0.0.0, and there seqd refuses
# to start until it has tokens (SEQD_AUTH_TOKENS) or is configured to serve everybody who can reach
# the address. The port above is published to this machine's loopback address only. The numbers are
# on the volume; everything else may be --read-only. scripts/image checks all of this.
#
# Without tokens it answers only requests for an IP address, localhost or a configured name: if
# other containers call it seqd, add -e SEQD_SERVER_HOSTS=seqd.

# Any image with a shell, Go 1.26 or later, and the certificates of public authorities in the place
# where Debian and Alpine have them. For a release give one by its digest, golang:1.26@sha256:…, which
# could not be asked for where this was written; scripts/scan says so.
ARG GO_IMAGE=golang:1.26
ARG VERSION=dev
ARG REVISION=unknown

FROM ${GO_IMAGE} AS build
WORKDIR /src
# The modules have their own layer: they are downloaded again only when go.mod or go.sum changes.
COPY go.mod go.sum ./
COPY client/go.mod client/
RUN go mod download
COPY . .
ARG VERSION
ARG REVISION
RUN CGO_ENABLED=0 go build -tags nomsgpack -trimpath -ldflags "-s -w -X github.com/seqd/seqd/internal/version.linked=${VERSION} -X github.com/seqd/seqd/internal/version.revision=${REVISION}" -o /image/seqd ./cmd/seqd
# The content of the image. The folder for the data is separate, because another user owns it. seqd
# verifies webhooks, trace collectors, Redis and databases by the certificates; for an authority of
# your own, mount its certificate as another file in /etc/ssl/certs.
RUN mkdir -p /image/etc/seqd /image/etc/ssl/certs /image/var/lib /state/data \
 && cp configs/seqd.yaml /image/etc/seqd/ \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && chmod 0644 /image/etc/seqd/seqd.yaml /image/etc/ssl/certs/ca-certificates.crt \
 && chmod 0750 /state/data

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="seqd" \
      org.opencontainers.image.description="Issues numbers over HTTP: GET /seq/{bizType}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/seqd/seqd" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build --chown=0:0 /image/ /
COPY --from=build --chown=65532:65532 /state/ /var/lib/seqd/
ENV SEQD_SERVER_ADDR=0.0.0.0:8080
USER 65532:65532
# The configuration names data/seqd.db: relative to this folder, so on the volume.
WORKDIR /var/lib/seqd
VOLUME /var/lib/seqd
EXPOSE 8080
STOPSIGNAL SIGTERM
# It asks the address in the configuration below and in the environment. It does not see flags: set
# addresses by SEQD_SERVER_ADDR, or set --health-cmd as well.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["/seqd", "healthcheck", "--config", "/etc/seqd/seqd.yaml"]
ENTRYPOINT ["/seqd"]
CMD ["--config", "/etc/seqd/seqd.yaml"]

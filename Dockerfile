# docker build -t millrace .
# One binary in an image that has no shell, no package manager and no root.

FROM docker.io/oven/bun:1.4.5-debian AS build
WORKDIR /build
COPY package.json bun.lock bunfig.toml ./
COPY patches patches
RUN bun install
COPY . .
RUN bun scripts/build.ts --licenses
# What a volume is made from: its owner is the user below.
RUN mkdir -p data && chmod 700 data

FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /build/dist/millrace /usr/local/bin/millrace
COPY --from=build /build/LICENSE /usr/share/doc/millrace/LICENSE
COPY --from=build /build/dist/THIRD_PARTY_LICENSES.txt /usr/share/doc/millrace/THIRD_PARTY_LICENSES.txt
COPY --from=build --chown=65532:65532 /build/data /data
# It listens to other machines, and so it asks for MILLRACE_API_TOKEN, or MILLRACE_USERNAME and MILLRACE_PASSWORD.
ENV MILLRACE_HOST=0.0.0.0 MILLRACE_PORT=3000 MILLRACE_DATA_DIR=/data
VOLUME /data
EXPOSE 3000
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/usr/local/bin/millrace", "health"]
# As the first process it gets the signals itself: SIGTERM stops it in order within 10 s, SIGHUP reads --config again.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/millrace"]
CMD ["serve"]

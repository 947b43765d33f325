# The program in an image: docker build -t stowage . && docker run --rm -v "$PWD:/work" stowage machine
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential cmake ninja-build pkg-config zlib1g-dev libzstd-dev \
    libmetis-dev coinor-libclp-dev libdnnl-dev dpkg-dev file && rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
RUN cmake --preset package && cmake --build --preset package && cd build/package && cpack

FROM debian:bookworm-slim
COPY --from=build /src/build/package/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/*.deb && rm -rf /var/lib/apt/lists/* /tmp/*.deb
WORKDIR /work
ENTRYPOINT ["stowage"]

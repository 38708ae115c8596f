# cec-store with Spark, from this checkout: docker build -t cec-store . && docker run --rm cec-store demo
# The jar of the provider is /opt/cec-store/cec-store-spark-<Spark>_2.13-<version>.jar, for images of your own to copy.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

COPY . /src
RUN pip install --no-cache-dir '/src[fast,spark,s3,hdfs,flights]' \
 && cec-store spark jar --into /opt/cec-store \
 && rm -rf /src

RUN useradd --create-home cec
USER cec
WORKDIR /home/cec
ENTRYPOINT ["cec-store"]
CMD ["--help"]

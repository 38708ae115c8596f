"""Which of Spark's tests are of RocksDB, and not of every store, by their names."""

NOT_OURS = {
    r"(?i)avro": "state in Avro, which is refused",
    r"hdfsStateStoreProvider should fail": "it says that another provider is refused",
    r"\(without changelog checkpointing\)": "once more with a setting of RocksDB's",
}

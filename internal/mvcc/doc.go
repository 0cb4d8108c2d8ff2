package mvcc

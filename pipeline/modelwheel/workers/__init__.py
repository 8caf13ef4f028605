"""Worker processes: the jobs that they run, the client that believes no more of them than it must, the pool."""

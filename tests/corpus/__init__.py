"""Published models that nobody here made or chose: downloaded by hash, built, verified and compared with other runtimes."""

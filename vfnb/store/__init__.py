"""One run on disk: an SQLite journal with one writer and many readers."""

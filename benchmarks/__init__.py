"""The performance table: this library beside the least work a job needs, and beside another library."""

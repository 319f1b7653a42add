"""The jobs, in the order data flows, and the command line on top."""

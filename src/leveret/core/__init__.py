"""The compiled data plane. Each module is plain Python with its C types in a .pxd beside it."""

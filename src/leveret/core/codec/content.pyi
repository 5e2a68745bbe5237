# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.


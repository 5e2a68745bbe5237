"""Where a message goes: one small file per exchange type behind the contract in exchange_type.py.

Knows what each type accepts and which matcher of core/ serves it. Never routes a message itself and holds no
bindings. Called by broker/ when exchanges are declared and bindings made; registry.py is the way in."""

"""Who gets it: the queue types behind one contract."""

"""Questions and answers over a broker: the asking side and the answering side."""

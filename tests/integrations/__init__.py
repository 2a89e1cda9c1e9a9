"""Other libraries' forms of SpanLab, with these libraries themselves."""

"""SVG pictures and HTML pages: of runs, masks, orders of prediction, and attention."""

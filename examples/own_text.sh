#!/usr/bin/env bash
# From a text file to masked training examples: tokenizer, corpus on disk, and a page that shows the masks.
#
#   examples/own_text.sh [FILE] [FOLDER]
#
# Without FILE it uses the Python language reference, which ships with every Python.
set -euo pipefail
out=${2:-own-text}
mkdir -p "$out"
text=${1:-}
if [ -z "$text" ]; then
  text=$out/python-reference.txt
  "${PYTHON:-python3}" -c 'from pydoc_data.topics import topics; print("\n\n\n".join(topics[k] for k in sorted(topics)))' > "$text"
fi
spanlab tokenizer train "$text" --type wordpiece --vocab-size 4000 --out "$out/tokenizer" --overwrite
spanlab prepare "$text" --tokenizer "$out/tokenizer" --out "$out/corpus" --overwrite
spanlab inspect corpus "$out/corpus" --verify
spanlab inspect masks --data "$out/corpus" --recipe spanbert --blocks 1 --html "$out/masks.html" data.length=96
echo "open $out/masks.html in a browser"

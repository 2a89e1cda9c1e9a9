"""Text that breaks tokenizers, and a little honest text to train them on."""

from hypothesis import strategies as st

HONEST = """
The ferry left the island before dawn. Nobody on the quay waved, because nobody was awake. "We could have stayed,"
said Anna, and her brother laughed. Captain O'Neill, who had sailed these waters for thirty-one years, knew better!
At 6.45 a.m. the fog lifted; the lighthouse-keeper's dog barked twice. Was it a warning? Perhaps. The café on the
promenade opened at eight, and Mr. Brown ordered his naïve little breakfast: toast, eggs, 2 cups of coffee (black).
Re-reading the letter, she found that every sentence began with the same word. It's unbelievable, isn't it?
Tokenization, retokenization, untokenized: words like these are cut into pieces, and pieces into smaller pieces.
渡轮在黎明前离开了小岛。码头上没有人挥手，因为大家都还在睡觉。“我们本来可以留下来的，”安娜说。她的哥哥笑了！
船长在这片海域航行了三十一年，他知道得更清楚。早上六点四十五分，雾散了；灯塔看守人的狗叫了两声。这是警告吗？
배는 해가 뜨기 전에 섬을 떠났다. 부두에서 손을 흔드는 사람은 아무도 없었다. 모두가 자고 있었기 때문이다.
"우리는 남을 수도 있었어." 안나가 말했고 오빠는 웃었다! 안개가 걷히자 등대지기의 개가 두 번 짖었다. 경고였을까?
"""

_ALPHABETS = [
    "abcXYZ .,!?'\"-()\n\t",
    "éèüñçÅßœﬁŉİıẞ",  # composed, ligatures, capitals whose small form is longer
    "e\u0301a\u0308o\u0323\u0302n\u0303 ",  # combining marks on letters
    "中文字，。！？「」（）\u3000㐀𠀀豈",
    "안녕하세요가각힣ㄱㅏ 한글",
    "שלום عالم مرحبا\u200f\u200e،؟",  # right to left, with its marks
    "🙂👩\u200d👩\u200d👧🏽🇰🇷❤️#️⃣",  # joined, coloured and paired emoji
    "\u200b\u200c\u200d\ufeff\u2060\u00ad a",  # zero width
    "\x00\x01\x07\x0b\x0c\x1c\x1f\x7f\x85\ufffd a\r\n",  # control characters
    "\xa0\u2003\u2028\u2029\u202f\u1680 a",  # spaces of every kind
    "कखािी्ं ไทยำ ",  # marks that are spacing, and a vowel that extends
    "½²①ﷺ™‘’“”…—`^~$+<=>|¨´",
    "▁Ġ##[]<>_/",
]

hostile_text = st.lists(
    st.one_of(
        *(st.text(alphabet=alphabet, max_size=8) for alphabet in _ALPHABETS),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
        st.sampled_from(
            ["word", " The", "tokenization", "[MASK]", "<mask>", "[SEP]", "<unk>", "</s>", "<|endoftext|>"]
        ),
        st.sampled_from(HONEST.split()),
    ),
    max_size=12,
).map("".join)
"""Strings of every script, of marks without letters, of spaces that are none, of special tokens written by users."""

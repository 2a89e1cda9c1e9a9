"""Keys of Hugging Face's `config.json` files that do not decide what a bare encoder computes.

`IGNORED_KEYS` concern training, generation, task heads or bookkeeping and are passed over. `REFUSED_SETTINGS` would
change the encoder: only the listed values are what our encoder does.
"""

from typing import Any

_BOOKKEEPING = """
model_type architectures transformers_version torch_dtype dtype _name_or_path name_or_path _commit_hash auto_map
name language license tokenizer_class _attn_implementation _attn_implementation_internal attn_implementation
xla_device torchscript use_bfloat16 tf_legacy_loss transformers_weights quantization_config adapters
sentence_transformers
"""
_HEADS_AND_TASKS = """
id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params classifier_dropout
classifier_dropout_prob summary_type summary_use_proj summary_activation summary_first_dropout
summary_last_dropout summary_proj_to_labels summary_hidden_size tie_word_embeddings tie_encoder_decoder
pooler_type pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head directionality
"""
_GENERATION = """
bos_token_id eos_token_id sep_token_id cls_token_id unk_token_id mask_token_id decoder_start_token_id
forced_bos_token_id forced_eos_token_id prefix bad_words_ids max_length min_length do_sample early_stopping num_beams
num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences output_scores return_dict_in_generate
remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens use_cache output_past
"""
_RUNNING = """
output_attentions output_hidden_states return_dict gradient_checkpointing chunk_size_feed_forward is_encoder_decoder
cross_attention_hidden_size embd_pdrop n_ctx n_special predict_special_tokens net_structure_type gap_size
num_memory_blocks down_scale_factor resid_pdrop reorder_and_upcast_attn keys_to_ignore_at_inference
d_head bi_data same_length use_mems_eval use_mems_train start_n_top end_n_top
"""

IGNORED_KEYS: frozenset[str] = frozenset((_BOOKKEEPING + _HEADS_AND_TASKS + _GENERATION + _RUNNING).split())

REFUSED_SETTINGS: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "pruned_heads": ({}, None),
    "scale_attn_weights": (True, None),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "attn_type": ("bi",),
    "untie_r": (True,),
}

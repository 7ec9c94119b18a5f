// The family BERT: an encoder of text that is trained by masked tokens and by the order of
// sentences. Devlin et al.: "BERT: Pre-training of Deep Bidirectional Transformers", 2018.
//
//   unit    embedding  encoder.layers.0 ...  final norm  binary head  head
//   letter  E          t                     n           P            L
//
// Post-norm models have no final norm, and those without a binary head no P. With a task the head
// of the task replaces both heads (tasks.hpp).

#pragma once

#include "runtime/family/bert/bert_config.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"

namespace troupe::runtime {

const model_family& bert_family();

/// Throws input_error for an extension.
model_spec bert_spec(const bert_config& config, const extension& own);

/// These are functions of model_family, for the settings as a command line writes them.
std::optional<bert_config> resolve(const bert_asked& asked,
                                   const given_settings& given,
                                   std::vector<std::string>& wrong);
bert_config resolve_hub(const bert_config& there,
                        const bert_asked& asked,
                        const given_settings& given,
                        const std::string& hub,
                        std::vector<std::string>& wrong);
void write_back(const bert_config& config, bert_asked& asked, given_settings& given, bool from_hub);

/// Samples of a BERT: one or two sentences with masked tokens, [CLS] A [SEP] B [SEP].
///
///   tokens, positions  (T) i32
///   labels, mask       (T) i32 and f32: the original token and 1 where a token is to be predicted;
///                      0 elsewhere
///   types              (T) i32: 1 from the first token of B to its [SEP]; with types of tokens
///   is_random          (1) i32: 1 if B precedes A in the text; with a binary head
///
/// Padding is a document of its own: a cut at the number of real tokens. So attention is never
/// causal, and no token sees padding.
batch_schema bert_schema(const bert_config& config);
const family_samples& bert_samples();

/// Post-norm models (model_type bert) and pre-norm ones (megatron-bert), for pre-training or for
/// masked tokens alone.
const hub_translation& bert_hub();

/// The pooler and the head that tells the order of sentences: two classes of the first row of each
/// sequence, and their loss, "sop loss".
struct sentence_head_spec {
  std::int64_t hidden = 0;  ///< C
  double init_std = 0;
};

/// Reads "is_random" (B, 1) of the batch and leaves pass::hidden as it is. Parameters: those of
/// "pooler.dense" and "binary_head".
void add(module_builder& to, const sentence_head_spec& x);
module_traits traits_of(const sentence_head_spec& x);
module_flops forward_flops(const sentence_head_spec& x, std::int64_t T);

}  // namespace troupe::runtime

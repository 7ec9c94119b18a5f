// T5: encoder and decoder. Its units, for the smallest model:
//
//   unit    embedding  layers   norm     embedding  layers   head
//   letter  E          e        n        D          t        L
//   stream  encoder    encoder  encoder  decoder    decoder  decoder
//
// Each layer of the decoder reads the stream "encoder", so that it crosses all cuts up to the last
// of them. Three units use the table of tokens: E, D and L. The layers of a stack share the table
// of their relative biases, which its first layer has.

#pragma once

#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/family/t5/t5_config.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

const model_family& t5_family();

/// The functions of model_family.
std::optional<t5_config> resolve(const t5_asked& asked,
                                 const given_settings& given,
                                 std::vector<std::string>& wrong);
t5_config resolve_hub(const t5_config& there,
                      const t5_asked& asked,
                      const given_settings& given,
                      const std::string& hub,
                      std::vector<std::string>& wrong);
void write_back(const t5_config& config, t5_asked& asked, given_settings& given, bool from_hub);

/// Throws input_error for an extension: a T5 takes none.
model_spec t5_spec(const t5_config& config, const extension& own = {});

/// Samples of a T5: a text for the encoder, and the tokens that the decoder predicts from it.
///
///   encoder_tokens     (encoder_sequence) i32, with encoder_positions 0, 1, ...
///   tokens             (decoder_sequence) i32, input of the decoder, with positions 0, 1, ...
///   labels, mask       (decoder_sequence) i32 and f32
///
/// Padding of either text is a document of its own: a cut at the number of real tokens, in
/// "encoder_documents" and in "documents". Attention then sees no padding.
batch_schema t5_schema(const t5_config& config);
const family_samples& t5_samples();

/// T5ForConditionalGeneration (model_type t5), of version 1.0 (an output layer with the scaled
/// table of the embedding) and 1.1 (an output layer of its own), with any activation of these.
const hub_translation& t5_hub();

}  // namespace troupe::runtime

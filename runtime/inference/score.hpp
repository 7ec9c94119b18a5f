// The log-likelihood of a text under a model.

#pragma once

#include "runtime/model/choice_texts.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The ids of documents as in a data set. An end-of-document token begins the whole and follows
/// each document. If `framed`, each document has the tokens that the tokenizer puts around a text.
std::vector<std::int32_t> ids_of_documents(std::span<const std::string> documents,
                                           const tokenizer& text,
                                           bool framed);

/// Called with the tokens predicted so far and their total.
using score_progress = std::function<void(std::uint64_t, std::uint64_t)>;

/// Why a model's output may be non-finite and what to do: the end of an error message.
std::string why_not_finite(dtype precision);

/// Choices of experts, by text: each window is a text.
struct scored_choices {
  choice_text_writer* record = nullptr;
  choice_reader* replay = nullptr;  ///< must outlive the call
  std::uint64_t next = 0;           ///< number of the next recorded window
};

/// Negative log-likelihood (natural logarithm) of tokens[1] ... tokens[n - 1], summed; each token
/// is predicted once. Slides a window of at most the model's sequence length by `stride`
/// predictions, 1 <= stride <= that length. The overlap with the previous window is context. Throws
/// input_error when the sum is not finite.
double surprise(const chunk& whole,
                parameter_store& store,
                stream& stream,
                std::span<const std::int32_t> tokens,
                std::int64_t stride,
                const score_progress& progress = {},
                scored_choices* choices = nullptr);

/// Logits (T, vocabulary), row-major, without padding, after each of the 1 <= T <= sequence length
/// tokens.
std::vector<float> logits_of(const chunk& whole,
                             parameter_store& store,
                             stream& stream,
                             std::span<const std::int32_t> tokens,
                             choice_reader* replay = nullptr);

}  // namespace troupe::runtime

#include "runtime/inference/score.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {

std::vector<std::int32_t> ids_of_documents(std::span<const std::string> documents,
                                           const tokenizer& text,
                                           bool framed) {
  const auto frame = framed ? text.frame() : text_frame();
  std::vector<std::int32_t> out = {text.end_of_document()};
  for (const auto& document : documents) {
    out.insert(out.end(), frame.before.begin(), frame.before.end());
    text.append(document, out);
    out.insert(out.end(), frame.after.begin(), frame.after.end());
    out.push_back(text.end_of_document());
  }
  return out;
}
namespace {

template <class T>
tensor row_of(stream& stream, std::int64_t size, const std::function<T(std::int64_t)>& element) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < size; ++i)
    out.push_back(element(i));
  return uploaded(stream, out, {1, size});
}

/// The tensors that a whole model reads of one sample, without labels.
bundle inputs_of(stream& stream,
                 std::int64_t T,
                 const std::function<std::int32_t(std::int64_t)>& token) {
  bundle out;
  out.add("tokens", row_of<std::int32_t>(stream, T, token));
  out.add("positions",
          row_of<std::int32_t>(stream, T, [](std::int64_t i) { return std::int32_t(i); }));
  out.add("samples", uploaded(stream, std::vector<std::uint64_t>{0}, {1}));
  return out;
}

}  // namespace

std::string why_not_finite(dtype precision) {
  if (precision == dtype::f16)
    return "its numbers may be too large for fp16, or its training has diverged; compute in bf16 "
           "or "
           "fp32, or load an earlier checkpoint";
  return "its training has diverged; load an earlier checkpoint";
}

double surprise(const chunk& whole,
                parameter_store& store,
                stream& stream,
                std::span<const std::int32_t> tokens,
                std::int64_t stride,
                const score_progress& progress,
                scored_choices* choices) {
  const auto longest = whole.model().sequence;
  const recompute_plan plan(whole, {});
  ensure(stride >= 1 && stride <= longest, "SCORE-1: windows move on by 1 to their length");
  const auto all = std::int64_t(tokens.size()) - 1;  // prediction i is of tokens[i + 1]
  double nats = 0;
  for (std::int64_t done = 0; done < all;) {
    const auto end = std::min(all, done == 0 ? longest : done + stride);
    const auto begin = std::max<std::int64_t>(0, end - longest);
    const auto T = end - begin;
    const auto at = [&](std::int64_t i) { return tokens[std::size_t(begin + i)]; };
    auto in = inputs_of(stream, T, at);
    in.add("labels", row_of<std::int32_t>(stream, T, [&](std::int64_t i) { return at(i + 1); }));
    in.add("mask", row_of<float>(stream, T, [&](std::int64_t i) {
             return begin + i < done ? 0.0F : 1.0F;
           }));
    chunk_pass pass(whole,
                    plan,
                    stream,
                    store,
                    {.training = false,
                     .limits_experts = false,
                     .records_choices = choices != nullptr && choices->record != nullptr,
                     .replays = choices != nullptr ? choices->replay : nullptr});
    pass.forward(in);
    if (choices != nullptr && choices->record != nullptr) {
      const auto window = tokens.subspan(std::size_t(begin), std::size_t(T) + 1);
      choices->record->write_tokens(choices->next, 0, window);
      for (const auto& [segment, choice] : pass.take_choices())
        choices->record->write_choices(choices->next, 0, choice, 0, T);
      ++choices->next;
    }
    nats += pass.loss(whole.model().head().reported.name).total;
    done = end;
    if (progress)
      progress(std::uint64_t(done), std::uint64_t(all));
  }
  if (!std::isfinite(nats))
    throw input_error("the model's loss on this text is not finite: {}",
                      why_not_finite(store.type()));
  return nats;
}

std::vector<float> logits_of(const chunk& whole,
                             parameter_store& store,
                             stream& stream,
                             std::span<const std::int32_t> tokens,
                             choice_reader* replay) {
  const auto T = std::int64_t(tokens.size());
  ensure(T >= 1 && T <= whole.model().sequence, "SCORE-2: logits are of one window");
  const recompute_plan plan(whole, {});
  const auto in = inputs_of(stream, T, [&](std::int64_t i) { return tokens[std::size_t(i)]; });
  const pass_settings settings{
      .training = false, .losses = false, .limits_experts = false, .replays = replay};
  chunk_pass pass(whole, plan, stream, store, settings);
  const auto logits = pass.forward(in).at("logits");
  const auto words = whole.model().head().vocabulary,
             padded = whole.model().head().padded_vocabulary;
  std::vector<float> out;
  out.reserve(std::size_t(T * words));
  with_element(store.type(), [&]<class E>(E) {
    const auto all = elements_of<E>(stream, logits);
    for (std::int64_t row = 0; row < T; ++row)
      for (std::int64_t word = 0; word < words; ++word)
        out.push_back(float(all[std::size_t(row * padded + word)]));
  });
  return out;
}

}  // namespace troupe::runtime

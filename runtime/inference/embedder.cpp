#include "runtime/inference/embedder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/inference/score.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace troupe::runtime {
namespace {

std::string without_ends(std::string_view text) {
  constexpr std::string_view end = "<|endoftext|>";
  std::string out;
  for (auto at = text.find(end); at != std::string_view::npos; at = text.find(end)) {
    out += text.substr(0, at);
    text.remove_prefix(at + end.size());
  }
  return out += text;
}

std::int64_t width_of(const model_spec& model) {
  return model.stream_of(model.units.back().stream).width;
}

}  // namespace

embedder::embedder(loaded_model& model, text_vector kind, std::int64_t longest)
    : model_(model),
      kind_(kind),
      longest_(longest),
      width_(width_of(model.whole().model())),
      plan_(model.whole(), {}) {
  const auto& around = *model.embedded();
  const auto least = std::int64_t(around.before.size() + around.after.size()) + 1;
  const auto most = model.whole().model().sequence;
  if (longest < least || longest > most)
    throw input_error(
        "texts of {} tokens are asked for, but the model takes {} to {}: give a length "
        "in this range",
        longest,
        least,
        most);
}

embedded_tokens embedder::encode(std::string_view text) const {
  return around(model_.text().encode(without_ends(text)));
}

embedded_tokens embedder::around(std::vector<std::int32_t> ids) const {
  const auto& around = *model_.embedded();
  embedded_tokens out{.tokens = std::int64_t(ids.size())};
  const auto room = longest_ - std::int64_t(around.before.size() + around.after.size());
  out.cut = out.tokens > room;
  ids.resize(std::size_t(std::min(out.tokens, room)));
  if (ids.empty())
    ids.push_back(around.nothing);
  out.ids = around.before;
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.ids.insert(out.ids.end(), around.after.begin(), around.after.end());
  return out;
}

bundle embedder::inputs_of(std::span<const embedded_tokens> batch, std::int64_t T) const {
  const auto B = std::int64_t(batch.size());
  std::vector<std::int32_t> tokens(std::size_t(B * T)), positions(tokens.size()), documents;
  std::vector<std::uint64_t> samples(batch.size()), document_samples;
  std::iota(samples.begin(), samples.end(), 0);
  for (std::int64_t b = 0; b < B; ++b) {
    const auto& ids = batch[std::size_t(b)].ids;
    std::ranges::copy(ids, tokens.begin() + b * T);
    std::iota(positions.begin() + b * T, positions.begin() + (b + 1) * T, 0);
    documents.push_back(std::int32_t(b * T));
    document_samples.push_back(std::uint64_t(b));
    if (std::int64_t(ids.size()) == T)
      continue;
    documents.push_back(std::int32_t(b * T + std::int64_t(ids.size())));  // padding
    document_samples.push_back(std::uint64_t(b));
  }
  const auto D = std::int64_t(documents.size());
  documents.push_back(std::int32_t(B * T));
  auto& stream = model_.stream();
  bundle out;
  out.add("tokens", uploaded(stream, tokens, {B, T}));
  out.add("positions", uploaded(stream, positions, {B, T}));
  out.add("samples", uploaded(stream, samples, {B}));
  out.add("documents", uploaded(stream, documents, {D + 1}));
  out.add("document_samples", uploaded(stream, document_samples, {D}));
  for (const auto& name : model_.embedded()->zeros)
    out.add(name, uploaded(stream, std::vector<std::int32_t>(tokens.size()), {B, T}));
  return out;
}

std::vector<float> embedder::vectors(std::span<const embedded_tokens> batch) {
  std::size_t most = 0;
  for (const auto& x : batch)
    most = std::max(most, x.ids.size());
  const auto T = std::int64_t(most), C = width_;
  const auto& around = *model_.embedded();
  chunk_pass pass(model_.whole(),
                  plan_,
                  model_.stream(),
                  model_.store(),
                  {.training = false, .losses = false, .limits_experts = false});
  const auto rows = pass.forward(inputs_of(batch, T)).at("logits");
  std::vector<float> out;
  out.reserve(batch.size() * std::size_t(C));
  with_element(model_.store().type(), [&]<class E>(E) {
    const auto all = elements_of<E>(model_.stream(), rows);
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const bool mean = kind_ == text_vector::mean;
      const auto begin = mean ? around.before.size() : 0,
                 end = mean ? batch[b].ids.size() - around.after.size() : 1;
      for (std::size_t c = 0; c < std::size_t(C); ++c) {
        double sum = 0;
        for (auto t = begin; t < end; ++t)
          sum += double(float(all[(b * std::size_t(T) + t) * std::size_t(C) + c]));
        out.push_back(float(sum / double(end - begin)));
      }
    }
  });
  if (!std::ranges::all_of(out, [](float x) { return std::isfinite(x); }))
    throw input_error("the model's vectors are not finite: {}",
                      why_not_finite(model_.store().type()));
  return out;
}

}  // namespace troupe::runtime

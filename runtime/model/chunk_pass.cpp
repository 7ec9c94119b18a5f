#include "runtime/model/chunk.hpp"

#include <utility>

namespace troupe::runtime {

namespace {

/// (B, T): 0, 1, ..., T - 1 in each row.
tensor counted(stream& on, std::int64_t B, std::int64_t T) {
  auto out = tensor::empty<std::int32_t>(on, {B, T});
  for (std::int64_t i = 0; i < B * T; ++i)
    out.data<std::int32_t>()[i] = std::int32_t(i % T);
  return out;
}

}  // namespace

chunk_pass::chunk_pass(const chunk& of,
                       stream& on,
                       parameter_store& store,
                       const pass_settings& how)
    : chunk_(of), tape_(on, store, how.training), pass_() {
  pass_.settings = how;
}

bundle chunk_pass::forward(const bundle& in, std::vector<attention_cache>* caches) {
  auto& rows = pass_.rows;
  rows.positions = in.at("positions");
  rows.samples = in.at("samples");
  const auto B = rows.positions.extents()[0], T = rows.positions.extents()[1];
  rows.starts = tensor::empty<std::int32_t>(tape_.on(), {B + 1});
  for (std::int64_t b = 0; b <= B; ++b)
    rows.starts.data<std::int32_t>()[b] = std::int32_t(b * T);
  // A pass over whole sequences begins at their beginning, whatever their position ids say.
  rows.order = caches != nullptr ? rows.positions : counted(tape_.on(), B, T);
  pass_.caches = caches;

  const auto& range = chunk_.range();
  if (range.embedding)
    pass_.tokens = in.at("tokens");
  else
    pass_.hidden = input_ = tape_.make(in.at("hidden"));
  if (range.head && in.has("labels")) {
    pass_.labels = in.at("labels");
    pass_.mask = in.at("mask");
  }
  for (const auto& s : chunk_.program()) {
    tape_.enter(s.unit);
    s.forward(tape_, pass_);
    tape_.leave();
  }

  bundle out;
  if (!range.head) {
    out.add("hidden", pass_.hidden.data);
    out.add("positions", rows.positions);
    out.add("samples", rows.samples);
    pass_.hidden.data = {};
  } else if (pass_.logits) {
    out.add("logits", std::move(pass_.logits));
  }
  input_.data = {};
  return out;
}

bundle chunk_pass::input_gradients(const bundle& in) {
  if (!chunk_.range().head)
    pass_.hidden.gradient->sum = in.at("hidden");
  for (int s = tape_.segments() - 1; s >= 0; --s)
    tape_.input_gradients(s);
  bundle out;
  if (!chunk_.range().embedding)
    out.add("hidden", std::move(input_.gradient->sum));
  return out;
}

void chunk_pass::weight_gradients() {
  for (int s = tape_.segments() - 1; s >= 0; --s)
    tape_.weight_gradients(s);
}

}  // namespace troupe::runtime

#include "runtime/data/gpt_index.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/numpy_random.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe::runtime {
namespace {

constexpr std::int64_t extra = 1;             // the label of a sample's last token
constexpr std::int64_t look_every = 1 << 16;  // samples between two looks at `stop`
constexpr std::int64_t most = std::int64_t{1} << 62;
constexpr std::int64_t most_i32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t most_u32 = std::numeric_limits<std::uint32_t>::max();

/// Appends `copies` copies of the range, shuffled together.
void add_shuffled(std::vector<std::int32_t>& out,
                  sequence_range range,
                  std::int64_t copies,
                  numpy_random_state& random) {
  const auto begin = out.size();
  for (std::int64_t copy = 0; copy < copies; ++copy)
    for (auto i = range.begin; i < range.end; ++i)
      out.push_back(static_cast<std::int32_t>(i));
  random.shuffle(std::span(out).subspan(begin));
}

/// The bounds of all samples. Reads the length of a sequence once per pass, not once per sample,
/// because there can be many short samples per sequence.
template <class T>
std::vector<T> cut(const token_source& source,
                   const std::vector<std::int32_t>& documents,
                   std::int64_t sequence_length,
                   std::int64_t samples,
                   const cancel_token& stop) {
  progress_bar bar("indexing samples", std::uint64_t(samples), "samples");
  std::vector<T> out(2 * static_cast<std::size_t>(samples + 1));
  std::int64_t document = 0, offset = 0, length = source.length(documents.front());
  const auto last = static_cast<std::int64_t>(documents.size()) - 1;
  auto* next = out.data();
  const auto put = [&next](std::int64_t of_document, std::int64_t at) {
    *next++ = static_cast<T>(of_document);
    *next++ = static_cast<T>(at);
  };
  put(document, offset);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    if (sample % look_every == 0) {
      stop.throw_if_cancelled();
      bar.advance_to(std::uint64_t(sample));
    }
    auto remaining = sequence_length + extra;
    while (remaining > length - offset && document != last) {
      remaining -= length - offset;
      length = source.length(documents[static_cast<std::size_t>(++document)]);
      offset = 0;
    }
    // The next sample begins with the last token of this one.
    offset = std::min(offset + remaining, length) - extra;
    put(document, offset);
  }
  return out;
}

template <class T>
std::vector<T> shuffled_order(std::int64_t first, std::int64_t total, numpy_random_state& random) {
  std::vector<T> out(static_cast<std::size_t>(total));
  std::iota(out.begin(), out.end(), T{0});
  random.shuffle(std::span(out).first(static_cast<std::size_t>(first)));
  random.shuffle(std::span(out).subspan(static_cast<std::size_t>(first)));
  return out;
}

}  // namespace

index_shape gpt_index_plan::documents(const gpt_index_request& request) const {
  return {index_type::i32, {epochs * request.range.size()}};
}

index_shape gpt_index_plan::bounds(const gpt_index_request& request) const {
  // Lengths always fit 32 bits; the number of sequences over all epochs may not.
  const bool narrow = epochs * request.range.size() <= most_i32;
  return {narrow ? index_type::i32 : index_type::i64, {samples + 1, 2}};
}

index_shape gpt_index_plan::order() const {
  return {samples >= most_u32 - 1 ? index_type::i64 : index_type::u32, {samples}};
}

gpt_index_plan plan_gpt_index(const token_source& source, const gpt_index_request& request) {
  const auto range = request.range;
  const auto S = request.sequence_length;
  ensure(0 <= range.begin && range.begin <= range.end && range.end <= source.sequences(),
         "SOURCE-1: only sequences that exist are read");
  if (S < 1 || S >= most_i32)
    throw input_error(
        "cannot cut the data into samples of {} tokens: the sequence length must be between 1 and "
        "2147483646",
        S);

  gpt_index_plan plan;
  for (auto i = range.begin; i < range.end; ++i)
    plan.tokens_per_epoch += source.length(i);
  const auto T = plan.tokens_per_epoch;
  if (T == 0)
    throw input_error(
        "cannot draw samples from the sequences [{}, {}) of {}: {}; give more data, or a split "
        "that leaves some for each part",
        range.begin,
        range.end,
        source.sequences(),
        range.size() == 0 ? "there are none" : "they have no tokens");

  const auto N = request.samples.value_or(0);
  if (N > std::uint64_t(most / S) - 1)
    throw input_error("cannot draw {} samples of {} tokens: more than 2^62 tokens", N, S);
  if (request.samples) {
    const auto needed = static_cast<std::int64_t>(N) * S + extra;
    plan.epochs = std::max<std::int64_t>(1, (needed + T - 1) / T);
  }
  if (plan.epochs > most / range.size())
    throw input_error("cannot draw {} samples of {} tokens: more than 2^62 sequences", N, S);

  const auto all = plan.epochs * T - extra;
  plan.samples = request.drop_last_partial ? all / S : (all + S - 1) / S;
  plan.samples_sans_final = plan.samples;
  if (plan.epochs > 1) {
    const auto sans = ((plan.epochs - 1) * T - extra) / S;
    const auto from_final = static_cast<std::int64_t>(N) - sans;
    const auto per_epoch = (T - extra) / S;
    plan.separate_final_epoch
        = from_final < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
    if (plan.separate_final_epoch)
      plan.samples_sans_final = sans;
  }
  return plan;
}

gpt_index build_gpt_index(const token_source& source,
                          const gpt_index_request& request,
                          const gpt_index_plan& plan,
                          const cancel_token& stop) {
  numpy_random_state random(request.seed);
  const auto S = request.sequence_length;

  std::vector<std::int32_t> documents;
  documents.reserve(plan.documents(request).elements());
  add_shuffled(documents, request.range, plan.epochs - plan.separate_final_epoch, random);
  if (plan.separate_final_epoch)
    add_shuffled(documents, request.range, 1, random);
  stop.throw_if_cancelled();

  gpt_index index;
  const auto bounds = plan.bounds(request);
  if (bounds.type == index_type::i32)
    index.bounds = {bounds, cut<std::int32_t>(source, documents, S, plan.samples, stop)};
  else
    index.bounds = {bounds, cut<std::int64_t>(source, documents, S, plan.samples, stop)};
  index.documents = {plan.documents(request), std::move(documents)};
  stop.throw_if_cancelled();

  const auto order = plan.order();
  const auto first = plan.samples_sans_final;
  if (order.type == index_type::u32)
    index.order = {order, shuffled_order<std::uint32_t>(first, plan.samples, random)};
  else
    index.order = {order, shuffled_order<std::int64_t>(first, plan.samples, random)};
  return index;
}

}  // namespace troupe::runtime

#include "runtime/inference/decoder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe::runtime {
namespace {

tensor whole_numbers(stream& stream, shape extents, std::int32_t first, std::int32_t step) {
  std::vector<std::int32_t> out(std::size_t(extents.size()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = first + std::int32_t(i) * step;
  return uploaded(stream, out, extents);
}

attention_cache empty_cache(
    const shape& entry, std::int64_t sequences, std::int64_t capacity, dtype type, stream& stream) {
  const auto rows = sequences * capacity;
  shape extents{rows};
  for (const auto x : entry)
    extents.push_back(x);
  attention_cache out;
  out.entries = with_element(type, [&]<class T>(T) { return tensor::empty<T>(stream, extents); });
  // Unwritten rows are masked by their position, but must be finite.
  stream.clear(out.entries.raw(), out.entries.bytes());
  out.positions = whole_numbers(stream, {rows}, std::numeric_limits<std::int32_t>::max(), 0);
  out.starts = whole_numbers(stream, {sequences + 1}, 0, std::int32_t(capacity));
  return out;
}

/// The next pass fills it.
attention_cache unfilled(dtype type) {
  attention_cache out;
  out.entries = tensor({}, type, {0});
  return out;
}

std::size_t longest(std::span<const std::vector<std::int32_t>> tokens) {
  std::size_t out = 0;
  for (const auto& x : tokens)
    out = std::max(out, x.size());
  return out;
}

/// Sample numbers, which only dropout reads.
tensor no_samples(stream& stream, std::size_t sequences) {
  return uploaded(stream, std::vector<std::uint64_t>(sequences), {std::int64_t(sequences)});
}

/// The blocks of `x`, one for each of `sequences`, in the order of `sources`.
tensor picked(stream& stream,
              const tensor& x,
              std::size_t sequences,
              std::span<const std::size_t> sources) {
  shape extents{x.extents()[0] / std::int64_t(sequences) * std::int64_t(sources.size())};
  for (int i = 1; i < x.extents().rank(); ++i)
    extents.push_back(x.extents()[i]);
  const auto block = x.bytes() / sequences;
  tensor out(stream.allocate(block * sources.size()), x.type(), extents);
  for (std::size_t i = 0; i < sources.size(); ++i)
    stream.copy(out.raw() + i * block, x.raw() + sources[i] * block, block);
  return out;
}

/// Rows [first[b], first[b + 1]) of each sequence b of `x` (1, rows, ..), in the order of
/// `sources`.
tensor picked_rows(stream& stream,
                   const tensor& x,
                   std::span<const std::int32_t> first,
                   std::span<const std::size_t> sources) {
  const auto row = x.bytes() / std::size_t(x.extents()[1]);
  std::int64_t rows = 0;
  for (const auto b : sources)
    rows += first[b + 1] - first[b];
  shape extents{1, rows};
  for (int i = 2; i < x.extents().rank(); ++i)
    extents.push_back(x.extents()[i]);
  tensor out(stream.allocate(row * std::size_t(rows)), x.type(), extents);
  auto* to = out.raw();
  for (const auto b : sources) {
    const auto bytes = row * std::size_t(first[b + 1] - first[b]);
    stream.copy(to, x.raw() + row * std::size_t(first[b]), bytes);
    to += bytes;
  }
  return out;
}

template <class T>
std::vector<T> picked(const std::vector<T>& x, std::span<const std::size_t> sources) {
  std::vector<T> out;
  for (const auto source : sources)
    out.push_back(x[source]);
  return out;
}

}  // namespace

std::vector<std::string> given_streams(const model_spec& model) {
  std::vector<std::string> out;
  for (const auto& stream : model.streams)
    if (stream.name != model.units.back().stream)
      out.push_back(stream.name);
  return out;
}

decoder::decoder(const chunk& whole,
                 parameter_store& store,
                 stream& stream,
                 std::int64_t capacity,
                 bool cached,
                 std::size_t sequences)
    : chunk_(whole),
      plan_(whole, {}),
      store_(store),
      stream_(stream),
      capacity_(capacity),
      cached_(cached),
      so_far_(cached ? 0 : sequences),
      filled_(sequences, 0) {}

void decoder::read(const bundle& inputs, std::vector<std::int32_t> first) {
  ensure(names_.empty() && std::ranges::max(filled_) == 0,
         "DECODE-3: streams are given before the first token");
  ensure(first.size() == sequences() + 1, "DECODE-1: every sequence is given its rows");
  const auto& model = chunk_.model();
  names_ = given_streams(model);
  for (const auto& name : names_) {
    const auto of_rows = documents_of(model.stream_of(name));
    ensure(!of_rows.empty() && of_rows != "documents",
           "DECODE-4: a given stream has borders of its own");
  }
  first_ = std::move(first);
  auto in = borders();
  for (const auto& [name, x] : inputs)
    in.add(name, x);
  in.add("samples", no_samples(stream_, 1));
  const pass_settings settings{.training = false, .losses = false, .limits_experts = false};
  chunk_pass pass(chunk_, plan_, stream_, store_, settings);
  given_ = pass.streams(in, names_);
  for (const auto& name : names_) {
    const auto& positions = model.stream_of(name).positions;
    if (!given_.has(positions))
      given_.add(positions, taken(stream_, inputs.at(positions)));
  }
}

/// Attention stays within the rows of a sequence.
bundle decoder::borders() {
  bundle out;
  for (const auto& name : names_)
    if (const auto of_rows = documents_of(chunk_.model().stream_of(name)); !out.has(of_rows))
      out.add(of_rows, uploaded(stream_, first_, {std::int64_t(first_.size())}));
  if (!names_.empty())
    out.add("document_samples", no_samples(stream_, sequences()));
  return out;
}

void decoder::make_caches() {
  const auto& entries = chunk_.caches();
  caches_.resize(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (is_given(chunk_.stream_of(chunk_.unit_of_cache(i))) || entries[i].size() == 0)
      caches_[i] = unfilled(store_.type());
    else
      caches_[i]
          = empty_cache(entries[i], std::int64_t(sequences()), capacity_, store_.type(), stream_);
}

void decoder::select(std::span<const std::size_t> sources) {
  const auto before = sequences();
  bool same = sources.size() == before;
  for (std::size_t i = 0; i < sources.size(); ++i)
    same = same && sources[i] == i;
  if (same)
    return;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    auto& cache = caches_[i];
    if (chunk_.caches()[i].size() == 0) {
      if (sources.size() != before)
        cache = unfilled(store_.type());
    } else if (cache.entries) {
      cache.entries = picked(stream_, cache.entries, before, sources);
      cache.positions = picked(stream_, cache.positions, before, sources);
      cache.starts
          = whole_numbers(stream_, {std::int64_t(sources.size()) + 1}, 0, std::int32_t(capacity_));
    }
  }
  if (sources.size() != before && !names_.empty())
    pick_given(sources);
  filled_ = picked(filled_, sources);
  if (!cached_)
    so_far_ = picked(so_far_, sources);
}

void decoder::pick_given(std::span<const std::size_t> sources) {
  bundle picked;
  for (const auto& [name, x] : given_)
    picked.add(name, picked_rows(stream_, x, first_, sources));
  given_ = std::move(picked);
  std::vector<std::int32_t> first = {0};
  for (const auto b : sources)
    first.push_back(first.back() + first_[b + 1] - first_[b]);
  first_ = std::move(first);
}

/// Pads shorter sequences at the end. Earlier tokens do not attend to the padding, and the next
/// token overwrites it.
bundle decoder::input(std::span<const std::vector<std::int32_t>> tokens) {
  const auto B = std::int64_t(tokens.size()), T = std::int64_t(longest(tokens));
  std::vector<std::int32_t> ids(std::size_t(B * T)), positions, places;
  const auto& model = chunk_.model();
  const auto last = model.positions() > 0 ? model.positions() - 1 : capacity_;
  for (std::int64_t b = 0; b < B; ++b) {
    const auto& own = tokens[std::size_t(b)];
    const auto first = cached_ ? filled_[std::size_t(b)] : 0;
    std::copy(own.begin(), own.end(), ids.begin() + b * T);
    for (std::int64_t t = 0; t < T; ++t) {
      positions.push_back(std::int32_t(std::min(first + t, last)));
      places.push_back(std::int32_t(b * capacity_ + std::min(first + t, capacity_ - 1)));
    }
  }
  const auto rows = uploaded(stream_, places, {B * T});
  auto in = borders();
  for (const auto& [name, x] : given_)
    in.add(name, x);
  in.add("tokens", uploaded(stream_, ids, {B, T}));
  in.add("positions", uploaded(stream_, positions, {B, T}));
  in.add("samples", no_samples(stream_, std::size_t(B)));
  for (auto& cache : caches_)
    cache.rows = rows;
  return in;
}

void decoder::keep_last(const tensor& logits, std::span<const std::vector<std::int32_t>> tokens) {
  const auto words = std::size_t(chunk_.model().head().padded_vocabulary), rows = longest(tokens);
  logits_.resize(tokens.size() * words);
  with_element(store_.type(), [&]<class T>(T) {
    std::vector<T> row(words);
    for (std::size_t b = 0; b < tokens.size(); ++b) {
      const auto first = (b * rows + tokens[b].size() - 1) * words;
      stream_.read(row.data(), logits.template data<T>() + first, words * sizeof(T));
      std::transform(row.begin(), row.end(), logits_.begin() + std::ptrdiff_t(b * words), [](T x) {
        return float(x);
      });
    }
  });
}

std::span<const float> decoder::advance(std::span<const std::vector<std::int32_t>> tokens) {
  ensure(tokens.size() == filled_.size(), "DECODE-1: every sequence is given its tokens");
  for (std::size_t b = 0; b < tokens.size(); ++b)
    ensure(!tokens[b].empty() && filled_[b] + std::int64_t(tokens[b].size()) <= capacity_,
           "DECODE-2: a sequence grows by one token or more, up to its capacity");
  const pass_settings settings{.training = false,
                               .losses = false,
                               .limits_experts = false,
                               .records_choices = keeps_choices_};
  chunk_pass pass(chunk_, plan_, stream_, store_, settings);
  for (std::size_t b = 0; b < so_far_.size(); ++b)
    so_far_[b].insert(so_far_[b].end(), tokens[b].begin(), tokens[b].end());
  if (cached_ && caches_.empty())
    make_caches();
  const auto seen = cached_ ? tokens : std::span<const std::vector<std::int32_t>>(so_far_);
  const auto logits = pass.forward(input(seen), cached_ ? &caches_ : nullptr, names_).at("logits");
  keep_last(logits, seen);
  choices_.clear();
  for (auto& [segment, choice] : pass.take_choices())
    choices_.push_back(std::move(choice));
  appended_.clear();
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    appended_.push_back(std::int64_t(tokens[b].size()));
    filled_[b] += appended_.back();
  }
  return logits_;
}

void decoder::record(std::size_t sequence, std::uint64_t text, choice_text_writer& to) const {
  const auto count = appended_.at(sequence), first = filled_[sequence] - count;
  for (const auto& x : choices_) {
    const auto row = std::int64_t(sequence) * x.rows.positions + (cached_ ? 0 : first);
    to.write_choices(text, first, x, row, count);
  }
}

}  // namespace troupe::runtime

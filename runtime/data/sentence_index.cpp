#include "runtime/data/sentence_index.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/index_cache.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr std::int32_t longest_sentence = 512;  // as in megatron-core
constexpr std::int64_t look_after = 1 << 16;    // documents or samples between two looks at `stop`

/// The target lengths of samples, in the order of their use.
class target_lengths {
 public:
  explicit target_lengths(const sentence_index_request& of) : bits_(of.seed), longest_(of.longest) {
    if (of.short_sequences > 0)
      ratio_ = std::int64_t(std::round(
          std::min(1 / of.short_sequences, double(std::numeric_limits<std::int32_t>::max()))));
  }

  std::int64_t next() {
    if (ratio_ == 0)
      return longest_;
    const auto drawn = std::int64_t(bits_());
    return drawn % ratio_ == 0 ? 2 + drawn % (longest_ - 1) : longest_;
  }

 private:
  std::mt19937 bits_;
  std::int64_t longest_, ratio_ = 0;
};

struct document_kinds {
  std::int64_t with_few_sentences = 0, with_long_sentences = 0, with_several_sentences = 0;
  std::int32_t longest_single = 0;  ///< sentence of a document that has no other
};

/// The index is wide only if the data set has more sentences than fit into 32 bits, as in
/// megatron-core.
index_type type_for(const document_source& source) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  return source.sequences() > most ? index_type::i64 : index_type::u32;
}

/// T is the type of the array's elements.
template <class T>
class index_maker {
 public:
  index_maker(const document_source& source,
              const sentence_index_request& request,
              const cancel_token& stop)
      : source_(source),
        request_(request),
        stop_(stop),
        targets_(request),
        bar_("indexing sentences", request.samples.value_or(0), "samples") {}

  void add_epoch() {
    kinds_ = {};
    for (auto d = request_.documents.begin; d < request_.documents.end; ++d) {
      if ((d - request_.documents.begin) % look_after == 0)
        look();
      add_document(source_.document_begin(d), source_.document_begin(d + 1));
    }
  }

  /// Throws input_error if the first epoch shows that this is no data set of sentences.
  void require_sentences() const {
    const auto documents = request_.documents.size();
    const auto* const remedy = "run `troupe preprocess` again, with texts split into sentences";
    if (documents == 0)
      throw input_error(
          "it has no documents: give more data, or a split that leaves some for each part");
    const bool single = kinds_.with_several_sentences == 0;
    if (single && kinds_.longest_single > longest_sentence)
      throw input_error(
          "its {} at most one sequence each, and one has {} tokens: they were not split into "
          "sentences of at most {}; {}",
          counted(documents, "document has", "documents have"),
          kinds_.longest_single,
          longest_sentence,
          remedy);
    if (samples() > 0)
      return;
    if (single && request_.least_sentences > 1)
      throw input_error(
          "its {} at most one sentence each, and a sample has two halves of at least one: {}, or "
          "train without the sentence order",
          counted(documents, "document has", "documents have"),
          remedy);
    throw input_error(
        "none of its {} makes a sample: {} fewer than {}, and {} a sentence of more than {} "
        "tokens; {}",
        counted(documents, "document"),
        counted(kinds_.with_few_sentences, "document has", "documents have"),
        counted(request_.least_sentences, "sentence"),
        counted(kinds_.with_long_sentences, "document has", "documents have"),
        longest_sentence,
        remedy);
  }

  std::uint64_t samples() const { return rows_.size() / 3; }

  index_array shuffled() && {
    std::mt19937_64 bits(std::uint64_t{request_.seed} + 1);
    for (auto i = samples(); i-- > 1;) {
      if (i % look_after == 0)
        look();
      const auto j = bits() % (i + 1);
      for (std::size_t column = 0; column < 3; ++column)
        std::swap(rows_[3 * i + column], rows_[3 * j + column]);
    }
    const auto rows = std::int64_t(samples());
    return {{type_for(source_), {rows, 3}}, std::move(rows_)};
  }

 private:
  void look() {
    stop_.throw_if_cancelled();
    if (request_.samples)
      bar_.advance_to(samples());
  }

  void add_document(std::int64_t first, std::int64_t last) {
    const auto sentences = last - first;
    if (sentences > 1)
      ++kinds_.with_several_sentences;
    else if (sentences == 1)
      kinds_.longest_single = std::max(kinds_.longest_single, source_.length(first));
    if (sentences < request_.least_sentences || sentences == 0) {
      ++kinds_.with_few_sentences;
      return;
    }
    for (auto s = first; sentences > 1 && s < last; ++s)
      if (source_.length(s) > longest_sentence) {
        ++kinds_.with_long_sentences;
        return;
      }
    cut(first, last);
  }

  void cut(std::int64_t first, std::int64_t last) {
    auto target = targets_.next();
    std::int64_t tokens = 0;
    for (auto begin = first, s = first; s < last; ++s) {
      tokens += source_.length(s);
      const auto remain = last - s - 1;
      const bool is_full
          = tokens >= target && remain > 1 && s + 1 - begin >= request_.least_sentences;
      if (!is_full && remain > 0)
        continue;
      for (const auto x : {begin, s + 1, target})
        rows_.push_back(T(x));
      begin = s + 1;
      tokens = 0;
      target = targets_.next();
    }
  }

  const document_source& source_;
  const sentence_index_request& request_;
  const cancel_token& stop_;
  target_lengths targets_;
  progress_bar bar_;
  document_kinds kinds_;
  std::vector<T> rows_;
};

template <class T>
index_array index_of(const document_source& source,
                     const sentence_index_request& request,
                     const cancel_token& stop) {
  index_maker<T> out(source, request, stop);
  out.add_epoch();
  out.require_sentences();
  while (out.samples() < request.samples.value_or(0))
    out.add_epoch();
  return std::move(out).shuffled();
}

std::string describe(const document_source& source,
                     const sentence_index_request& request,
                     data_split part) {
  const auto [begin, end] = request.documents;
  const auto first = source.document_begin(begin), last = source.document_begin(end);
  digester borders;
  for (auto d = begin; d <= end; ++d) {
    const auto border = source.document_begin(d);
    borders.add(&border, sizeof border);
  }
  return fmt::format(
      "{{\n"
      "    \"class\": \"SentenceDataset\",\n"
      "    \"format\": 1,\n"
      "    \"documents\": [{}, {}],\n"
      "    \"document_borders_xxh3\": \"{}\",\n"
      "    \"sequence_lengths_xxh3\": \"{}\",\n"
      "    \"num_samples\": {},\n"
      "    \"index_split\": \"{}\",\n"
      "    \"random_seed\": {},\n"
      "    \"sequence_length\": {},\n"
      "    \"min_sentences\": {},\n"
      "    \"short_sequence_probability\": {}\n"
      "}}",
      begin,
      end,
      to_string(borders.result()),
      digest_of_lengths(source, first, last),
      request.samples ? std::to_string(*request.samples) : "null",
      to_string(part),
      request.seed,
      request.longest,
      request.least_sentences,
      request.short_sequences);
}

}  // namespace

index_array build_sentence_index(const document_source& source,
                                 const sentence_index_request& request,
                                 const cancel_token& stop) {
  ensure(request.longest >= 2, "SENTENCES-1: a sample has room for two tokens");
  return type_for(source) == index_type::u32 ? index_of<std::uint32_t>(source, request, stop)
                                             : index_of<std::int64_t>(source, request, stop);
}

index_array load_or_build_sentence_index(const document_source& source,
                                         const sentence_index_request& request,
                                         data_split part,
                                         const std::filesystem::path& folder,
                                         const cancel_token& stop) {
  auto arrays = load_or_build(
      {.folder = folder,
       .kind = "SentenceDataset",
       .part = part,
       .description = describe(source, request, part),
       .files = {{"sample_index.npy", {type_for(source), {-1, 3}}}}},
      [&] {
        std::vector<index_array> built;
        built.push_back(build_sentence_index(source, request, stop));
        return built;
      },
      stop);
  return std::move(arrays.front());
}

}  // namespace troupe::runtime

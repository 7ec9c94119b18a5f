#include "runtime/model/stages.hpp"

#include "runtime/core/divisor.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <charconv>

namespace troupe::runtime {
namespace {

using std::int64_t;

/// A letter of the layout string after expansion of repetitions.
struct item {
  char kind;
  std::size_t at;  ///< position in the text
};

class stage_reader {
 public:
  /// `kinds`: the letters of the model. `predicts` accepts the letter m, too.
  stage_reader(std::string_view text, std::string_view flag, std::string kinds, bool predicts)
      : text_(text), flag_(flag), kinds_(std::move(kinds)), predicts_(predicts) {}

  std::vector<item> read() {
    auto out = sequence(0);
    if (at_ < text_.size())
      refuse(at_, "this parenthesis was not opened");
    return out;
  }

  [[noreturn]] void refuse(std::size_t at, const std::string& why) const {
    throw input_error("{}: {}\n    {}\n    {}^", flag_, why, text_, std::string(at, ' '));
  }

 private:
  static constexpr std::size_t most_items = 1 << 20;
  static constexpr int deepest = 16;

  std::vector<item> sequence(int depth) {
    std::vector<item> out;
    while (at_ < text_.size() && text_[at_] != ')') {
      const auto begin = at_;
      auto one = repeated(depth);
      out.insert(out.end(), one.begin(), one.end());
      if (out.size() > most_items)
        refuse(begin, fmt::format("more than {} letters", most_items));
    }
    return out;
  }

  std::vector<item> repeated(int depth) {
    const auto begin = at_;
    auto one = single(depth);
    if (at_ == text_.size() || text_[at_] != '*')
      return one;
    const auto* digits = text_.data() + at_ + 1;
    std::size_t count = 0;
    const auto [end, failure] = std::from_chars(digits, text_.data() + text_.size(), count);
    if (failure != std::errc{} || count < 1)
      refuse(at_ + 1, "* needs a repeat count, a whole number from 1");
    if (count > most_items || one.size() * count > most_items)
      refuse(begin, fmt::format("more than {} letters", most_items));
    at_ = std::size_t(end - text_.data());
    std::vector<item> out;
    for (std::size_t i = 0; i < count; ++i)
      out.insert(out.end(), one.begin(), one.end());
    return out;
  }

  std::vector<item> single(int depth) {
    const auto begin = at_++;
    switch (const char c = text_[begin]) {
      case ',':
        return {};
      case '|':
        return {{c, begin}};
      case '(':
        return group(begin, depth);
      case '*':
        refuse(begin, "this * has nothing before it to repeat");
      default:
        if (kinds_.find(c) != std::string::npos || (c == 'm' && predicts_))
          return {{c, begin}};
        if (c == 'm')
          refuse(begin, "m (multi-token prediction) is not supported");
        refuse(begin, fmt::format("expected {}| next stage, *n, ( ) or ,", words()));
    }
  }

  /// "E embedding, t layer, L loss, "
  std::string words() const {
    std::string out;
    for (const char c : kinds_)
      out += fmt::format("{}{}, ",
                         c,
                         c == 'E'   ? " embedding"
                         : c == 't' ? " layer"
                         : c == 'L' ? " loss"
                                    : "");
    return out;
  }

  std::vector<item> group(std::size_t begin, int depth) {
    if (depth == deepest)
      refuse(begin, fmt::format("parentheses are nested more than {} deep", deepest));
    auto out = sequence(depth + 1);
    if (at_ == text_.size())
      refuse(begin, "this parenthesis is not closed");
    ++at_;
    return out;
  }

  std::string_view text_, flag_;
  std::string kinds_;
  bool predicts_;
  std::size_t at_ = 0;
};

/// Layers among the first `units` units.
int64_t layers_before(int64_t units, const unit_letters& letters) {
  int64_t out = 0;
  for (const auto& run : letters) {
    const auto ours = std::clamp<int64_t>(units, 0, run.units);
    out += run.layers ? ours : 0;
    units -= run.units;
  }
  return out;
}

/// The unit after the first `layers` layers; for none, the first layer.
int64_t unit_after(int64_t layers, const unit_letters& letters) {
  int64_t unit = 0;
  for (const auto& run : letters) {
    if (run.layers && layers <= run.units)
      return unit + layers;
    layers -= run.layers ? run.units : 0;
    unit += run.units;
  }
  return unit;
}

/// The units of stage `s` with the layers [first, end).
chunk_range stage_with(int64_t first, int64_t end, int s, int stages, const unit_letters& letters) {
  return {s == 0 ? 0 : unit_after(first, letters),
          s == stages - 1 ? units_of(letters) : unit_after(end, letters)};
}

[[noreturn]] void refuse_uneven(const unit_letters& letters,
                                int64_t layers,
                                int stages,
                                const uneven_ends& ends) {
  const auto extra = int64_t{ends.embedding_counts} + int64_t{ends.loss_counts};
  throw input_error(
      "`layout.pipeline` {} does not divide `model.layers` {}{}: choose {}, or set the layers of "
      "the ends with `layout.ends.first` and `layout.ends.last`, or those of every stage with "
      "`layout.chunks`, e.g. '{}'",
      stages,
      layers,
      extra == 0 ? "" : fmt::format(" + {} for embedding and loss", extra),
      nearest_divisor(layers + extra, stages),
      [&] {
        std::vector<chunk_range> example;
        for (int s = 0; s < std::min(stages, 64); ++s)
          example.push_back(
              stage_with(s * layers / stages, (s + 1) * layers / stages, s, stages, letters));
        return to_text(example, letters);
      }());
}

/// "`layout.ends.first` 3 and `layout.ends.last` 2"
std::string told_ends(const uneven_ends& ends) {
  std::string out;
  if (ends.first)
    out = fmt::format("`layout.ends.first` {}", *ends.first);
  if (ends.last)
    out += fmt::format("{}`layout.ends.last` {}", ends.first ? " and " : "", *ends.last);
  return out;
}

/// Changes the first end that is given as little as possible so that the split is even; nothing if
/// that is impossible.
std::optional<uneven_ends> nearest_ends(int64_t layers, int64_t between, uneven_ends ends) {
  auto& moved = ends.first ? *ends.first : *ends.last;
  const auto most = layers - (ends.first ? ends.last.value_or(0) : 0);
  if (between < 0 || most < 0)
    return std::nullopt;
  const auto least = between == 0 ? most : most % between;
  const auto steps = between == 0 ? 0 : (moved - least + between / 2) / between;
  moved = std::clamp(least + steps * between, least, most);
  return ends;
}

[[noreturn]] void refuse_ends(int64_t layers, int stages, int between, const uneven_ends& ends) {
  const auto ours = ends.first.value_or(0) + ends.last.value_or(0);
  const auto better = nearest_ends(layers, between, ends);
  const auto why
      = between > 0 && ours <= layers
            ? fmt::format("{} layers remain for {} stages, which cannot share them evenly",
                          layers - ours,
                          between)
            : fmt::format("that is {} layers on {} stages", ours, stages);
  throw input_error(
      "{} of `model.layers` {} over `layout.pipeline` {}: {}; {}or set every stage with "
      "`layout.chunks`",
      told_ends(ends),
      layers,
      stages,
      why,
      better ? fmt::format("nearest valid: {}; ", told_ends(*better)) : "");
}

/// Layers per stage if `ends` gives one end or both.
std::vector<int64_t> around_given_ends(int64_t layers, int stages, const uneven_ends& ends) {
  if (ends.embedding_counts || ends.loss_counts)
    throw input_error(
        "`layout.ends.first` and `layout.ends.last` set the layers of the ends, and "
        "`layout.ends.embedding_counts` and `layout.ends.loss_counts` derive them: give one kind");
  const int told = int{ends.first.has_value()} + int{ends.last.has_value()};
  const auto rest = layers - ends.first.value_or(0) - ends.last.value_or(0);
  const auto between = stages - told;
  const auto share = between > 0 ? rest / between : 0;
  if (between < 0 || rest < 0 || share * between != rest)
    refuse_ends(layers, stages, between, ends);
  std::vector<int64_t> out(std::size_t(stages), share);
  if (ends.first)
    out.front() = *ends.first;
  if (ends.last)
    out.back() = *ends.last;
  return out;
}

std::vector<int64_t> counted_ends(const unit_letters& letters,
                                  int64_t layers,
                                  int stages,
                                  const uneven_ends& ends) {
  const auto all = layers + int64_t{ends.embedding_counts} + int64_t{ends.loss_counts};
  if (all % stages != 0)
    refuse_uneven(letters, layers, stages, ends);
  std::vector<int64_t> out(std::size_t(stages), all / stages);
  out.front() -= int64_t{ends.embedding_counts};
  out.back() -= int64_t{ends.loss_counts};
  return out;
}

std::string kinds_of(const unit_letters& letters) {
  std::string out;
  for (const auto& run : letters)
    if (out.find(run.letter) == std::string::npos)
      out += run.letter;
  return out;
}

char letter_at(int64_t unit, const unit_letters& letters) {
  auto run = letters.begin();
  while (unit >= run->units)
    unit -= (run++)->units;
  return run->letter;
}

/// An embedding, layers and a loss.
bool is_plain(const unit_letters& letters) {
  return letters.size() == 3 && letters[0] == letter_run{'E', 1} && letters[1].layers
         && letters[1].letter == 't' && letters[2] == letter_run{'L', 1};
}

/// Why `kind` is wrong for a unit of a plain model.
std::string difference_from_plain(char kind, int64_t unit, int64_t layers, bool is_last) {
  if (kind == 'E')
    return "only one embedding is allowed, at the beginning";
  if (kind == 't')
    return fmt::format("more layers than `model.layers` {}", layers);
  if (!is_last)
    return "only one loss is allowed, at the end";
  return fmt::format("there are {} layers up to here, of `model.layers` {}: write {} more t",
                     unit - 1,
                     layers,
                     layers - unit + 1);
}

/// Why `kind` is wrong for this unit, or for the last letter.
std::string difference_from(const unit_letters& letters, char kind, int64_t unit, bool is_last) {
  if (is_plain(letters))
    return difference_from_plain(kind, unit, letters[1].units, is_last);
  const auto units = units_of(letters), rest = units - unit - 1;
  const auto model = to_text({{0, units}}, letters);
  if (const auto wanted = letter_at(unit, letters); wanted != kind)
    return fmt::format("{} is unit {} of the model '{}', not {}", wanted, unit + 1, model, kind);
  if (is_last)
    return fmt::format("{} more units follow in the model '{}'", rest, model);
  return fmt::format("the model '{}' ends with this unit", model);
}

}  // namespace

std::vector<chunk_range> split_layers(const unit_letters& letters,
                                      int stages,
                                      const uneven_ends& ends) {
  const auto layers = layers_before(units_of(letters), letters);
  ensure(layers > 0 && stages > 0, "STAGES-1: there are layers to split, over stages");
  const auto counts = ends.first || ends.last ? around_given_ends(layers, stages, ends)
                                              : counted_ends(letters, layers, stages, ends);
  std::vector<chunk_range> out;
  int64_t first = 0;
  for (int s = 0; s < stages; ++s) {
    const auto end = first + counts[std::size_t(s)];
    out.push_back(stage_with(first, end, s, stages, letters));
    first = end;
  }
  return out;
}

std::vector<int64_t> layers_of_stages(std::string_view text, std::string_view flag) {
  stage_reader reader(text, flag, "EtL", true);
  std::vector<int64_t> out(1);
  for (const auto& x : reader.read())
    if (x.kind == '|')
      out.push_back(0);
    else if (x.kind == 't' || x.kind == 'm')
      ++out.back();
  if (std::all_of(out.begin(), out.end(), [](int64_t n) { return n == 0; }))
    reader.refuse(0, "no stage has a layer: write t for each layer");
  return out;
}

std::vector<chunk_range> stages_from_text(std::string_view text,
                                          const unit_letters& letters,
                                          int ranks,
                                          int each) {
  stage_reader reader(text, "`layout.chunks`", kinds_of(letters), false);
  const auto items = reader.read();
  const char first = letters.front().letter, end = letters.back().letter;
  if (items.empty() || items.front().kind != first)
    reader.refuse(items.empty() ? 0 : items.front().at,
                  fmt::format("the first stage must begin with {}", first));
  if (items.back().kind != end)
    reader.refuse(items.back().at, fmt::format("the last stage must end with {}", end));
  const auto units = units_of(letters);
  std::vector<chunk_range> out(1);
  for (const auto& x : items) {
    auto& unit = out.back().end;
    if (x.kind == '|') {
      out.push_back({unit, unit});
      continue;
    }
    const bool is_last = &x == &items.back();
    // STAGES-2
    if (x.kind != letter_at(unit, letters) || is_last != (unit + 1 == units))
      reader.refuse(x.at, difference_from(letters, x.kind, unit, is_last));
    ++unit;
  }
  const auto last = items.back().at;
  const auto number = int64_t(out.size());
  if (each == 1 && number != ranks && number % ranks == 0)
    reader.refuse(last,
                  fmt::format("there are {} stages, {} for each of `layout.pipeline` "
                              "{}, but the schedule gives each rank one; give it {}",
                              number,
                              number / ranks,
                              ranks,
                              number));
  if (each > 1 && number != ranks * each)
    reader.refuse(last,
                  fmt::format("there are {} stages up to here, but {} virtual stages on each of "
                              "`layout.pipeline` {} are {}",
                              number,
                              each,
                              ranks,
                              ranks * each));
  if (each >= 0 && number % ranks != 0)
    reader.refuse(last,
                  fmt::format("there are {0} stages up to here, but `layout.pipeline` {1}: give "
                              "it {0}",
                              number,
                              ranks));
  return out;
}

int64_t units_of(const unit_letters& letters) {
  int64_t out = 0;
  for (const auto& run : letters)
    out += run.units;
  return out;
}

chunk_range layers_in(const chunk_range& chunk, const unit_letters& letters) {
  return {layers_before(chunk.first, letters), layers_before(chunk.end, letters)};
}

std::string to_text(const std::vector<chunk_range>& stages, const unit_letters& letters) {
  std::string out;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    out += s > 0 ? "|" : "";
    int64_t begin = 0;
    for (const auto& run : letters) {
      const auto end = begin + run.units;
      const auto ours = std::min(stages[s].end, end) - std::max(stages[s].first, begin);
      if (ours > 0)
        out += ours == 1 ? std::string(1, run.letter) : fmt::format("{}*{}", run.letter, ours);
      begin = end;
    }
  }
  return out;
}

}  // namespace troupe::runtime

#include "runtime/schedule/csv.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/csv_action.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_ranks = 1000000;
constexpr std::string_view torch_pair = "OVERLAP_F_B";

std::string_view trimmed(std::string_view x) {
  const auto first = std::min(x.find_first_not_of(" \t\r"), x.size());
  x.remove_prefix(first);
  return x.substr(0, x.find_last_not_of(" \t\r") + 1);
}

/// Cuts off and returns the text before the next mark; removes the mark. Without a mark: all of the
/// text.
std::string_view cut(std::string_view& from, char mark) {
  const auto end = std::min(from.find(mark), from.size());
  const auto out = from.substr(0, end);
  from.remove_prefix(std::min(end + 1, from.size()));
  return out;
}

std::string shortened(std::string_view cell) {
  return cell.size() <= 60 ? std::string(cell) : std::string(cell.substr(0, 57)) + "...";
}

/// Plans are ASCII. Other characters in a file must not control the terminal.
std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

/// Reads cell after cell; `finish` checks the plan as a whole.
class plan_reader {
 public:
  explicit plan_reader(const std::string& name) { out_.name = name; }

  void add_row(std::string_view line) {
    if (out_.ranks.size() == most_ranks)
      throw input_error("{}: more than {} lines; each line is a rank", out_.name, most_ranks);
    row_ = &out_.ranks.emplace_back();
    for (cell_ = 1; !line.empty(); ++cell_)
      if (const auto text = printable(trimmed(cut(line, ','))); !text.empty())
        try {
          add_cell(text);
        } catch (const input_error& why) {
          throw input_error("{}, line {}, cell {}, '{}': {}",
                            out_.name,
                            out_.ranks.size(),
                            cell_,
                            shortened(text),
                            why.what());
        }
  }

  plan finish() {
    if (actions_ == 0)
      throw input_error(
          "{} has no action: a plan has a line for each rank, such as 0F0,0F1,0B0,0B1", out_.name);
    out_.copies = has_copies_ ? 2 : 1;
    out_.microbatches *= out_.copies;
    check_proportion();
    place();
    const bool plain = std::all_of(out_.blocks.begin(), out_.blocks.end(), [](const auto& of) {
      return of == std::vector<char>{0};
    });
    if (plain)
      out_.blocks.clear();
    return std::move(out_);
  }

 private:
  void add_cell(std::string_view text) {
    if (text.front() != '(')
      return add(text, false);
    const auto end = text.find(')');
    if (end == text.npos)
      throw input_error("a pair is not closed: it is written (0F7;3B4)");
    const auto after = trimmed(text.substr(end + 1));
    if (!after.empty() && after != torch_pair)
      throw input_error("'{}' follows a pair; a pair is written (0F7;3B4)", after);
    auto inner = text.substr(1, end - 1);
    if (std::count(inner.begin(), inner.end(), ';') != 1)
      throw input_error("a pair has two actions: (0F7;3B4)");
    const auto first = trimmed(cut(inner, ';'));
    add(first, true);
    add(trimmed(inner), true);
    row_->end()[-2].with_next = true;
  }

  void add(std::string_view text, bool in_pair) {
    const auto [what, names_copy] = action_from_text(text);
    if (in_pair && what.kind > action_kind::recompute)
      throw input_error("only computing actions can form a pair; {} does not compute",
                        to_string(what));
    if (actions_++ > 0 && names_copy != has_copies_)
      throw input_error(
          "in a plan of two copies each action names its copy, such as {}; here some do "
          "and some do not",
          to_string(what, 2));
    has_copies_ = names_copy;
    row_->push_back(what);
    out_.microbatches = std::max(out_.microbatches, int(value(what.microbatch)) + 1);
    out_.chunks = std::max(out_.chunks, int(value(what.chunk)) + 1);
    largest_block_ = std::max(largest_block_, what.block);
  }

  /// A mistyped number must not allocate a table of that many stages, micro-batches and blocks.
  void check_proportion() const {
    const auto most = 100.0 * double(actions_) + 10000;
    if (double(out_.chunks) * out_.microbatches * (largest_block_ + 1.0) > most)
      throw input_error(
          "{} names stages up to {}, micro-batches up to {} and blocks up to {}, but "
          "has {} actions: one of the numbers is wrong, or most of the plan is "
          "missing",
          out_.name,
          out_.chunks - 1,
          out_.microbatches / out_.copies - 1,
          largest_block_,
          actions_);
  }

  void place() {
    const auto chunks = std::size_t(out_.chunks);
    out_.placement.assign(chunks * std::size_t(out_.copies), -1);
    out_.blocks.assign(chunks, {0});
    out_.training = false;
    for (std::size_t r = 0; r < out_.ranks.size(); ++r)
      for (const auto& a : out_.ranks[r]) {
        auto& rank = out_.placement[value(a.copy) * chunks + value(a.chunk)];
        if (rank >= 0 && rank != int(r))
          throw input_error(
              "{}, line {}: {} belongs to stage {}, which is on line {}: all "
              "actions of a stage are on one rank",
              out_.name,
              r + 1,
              to_string(a, out_.copies),
              value(a.chunk),
              rank + 1);
        rank = int(r);
        auto& of = out_.blocks[value(a.chunk)];
        of.resize(std::max(of.size(), std::size_t(a.block) + 1));
        if (a.kind == action_kind::recompute)
          of[a.block] = 1;
        out_.training |= a.kind != action_kind::forward && a.kind != action_kind::send_activation
                         && a.kind != action_kind::receive_activation;
      }
    const auto missing = std::find(out_.placement.begin(), out_.placement.end(), -1);
    if (missing == out_.placement.end())
      return;
    const auto at = std::size_t(missing - out_.placement.begin());
    const std::string copy
        = out_.copies > 1 ? std::string(" of copy ") + char('a' + at / chunks) : "";
    throw input_error("{} has no action of stage {}{}, but stages up to {}",
                      out_.name,
                      at % chunks,
                      copy,
                      out_.chunks - 1);
  }

  plan out_;
  std::vector<action>* row_ = nullptr;
  std::size_t cell_ = 0, actions_ = 0;
  bool has_copies_ = false;
  std::uint16_t largest_block_ = 0;
};

}  // namespace

std::string to_csv(const plan& x) {
  std::string out;
  for (const auto& row : x.ranks) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_pair = row[i].with_next && i + 1 < row.size();
      out += i ? "," : "";
      out += is_pair ? "(" + to_string(row[i], x.copies) + ";" : to_string(row[i], x.copies);
      if (is_pair)
        out += to_string(row[++i], x.copies) + ")";
    }
    out += '\n';
  }
  return out;
}

plan plan_from_csv(std::string_view text, const std::string& name) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  plan_reader out(name);
  while (!text.empty())
    out.add_row(cut(text, '\n'));
  return out.finish();
}

}  // namespace troupe::runtime

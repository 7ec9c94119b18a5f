#include "runtime/state/step_ledger.hpp"

#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_named = 8;
constexpr std::size_t most_unwritten = 16 << 20;  // bytes; beyond them the ledger stops writing

/// The parameters with different digests; the first few by name.
std::string differing(const std::map<std::string, digest>& before,
                      const std::map<std::string, digest>& now) {
  std::vector<std::string> names;
  for (const auto& [name, state] : before)
    if (const auto found = now.find(name); found == now.end() || found->second != state)
      names.push_back(name);
  const auto all = names.size();
  names.resize(std::min(all, most_named));
  return fmt::format("{}{}",
                     fmt::join(names, ", "),
                     all > most_named ? fmt::format(" and {} more", all - most_named) : "");
}

/// Bytes up to the end of the last complete line.
std::uintmax_t whole_lines_of(const std::filesystem::path& file) {
  return read_text(file).rfind('\n') + 1;
}

}  // namespace

void step_ledger::belongs_to(std::uint32_t epoch) {
  const std::lock_guard writer(writers_);
  const std::lock_guard lock(mutex_);
  if (epoch <= epoch_)
    return;
  epoch_ = epoch;
  note(ledger::succeeded{epoch});
}

std::uint32_t step_ledger::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

step_ledger::pen step_ledger::by(std::uint32_t epoch) {
  std::unique_lock lock(writers_);
  if (epoch < epoch_)
    throw cancelled();  // LEDGER-3
  return {*this, std::move(lock)};
}

void step_ledger::begin(const training_position& at) {
  const std::lock_guard lock(mutex_);
  start_ = at.iteration;
  positions_[at.iteration] = at;
  note(ledger::begun{at});
}

void step_ledger::is_of(const ledger::job& x) {
  const std::lock_guard lock(mutex_);
  says_job_ = true;
  note(x);
}

bool step_ledger::says_job() const {
  const std::lock_guard lock(mutex_);
  return says_job_;
}

void step_ledger::write_down(const std::filesystem::path& file) {
  ensure(!position(start_), "LEDGER-4: all of a ledger is written down, or nothing");
  open(file, false);
}

void step_ledger::go_on_in(const std::filesystem::path& file) {
  const auto all = read_ledger(file);
  if (!is_whole(all))
    throw input_error("cannot continue the ledger '{}': its beginning is missing", file.string());
  take_up(all);
  std::error_code failure;
  std::filesystem::resize_file(file, whole_lines_of(file), failure);
  if (failure)
    throw io_error("cannot continue the ledger '{}': {}", file.string(), failure.message());
  open(file, true);
}

void step_ledger::open(const std::filesystem::path& file, bool append) {
  const std::lock_guard of_file(file_mutex_);
  const std::lock_guard lock(mutex_);
  file_.emplace("the ledger", file, append);
  path_ = file;
  writes_down_ = true;
}

bool step_ledger::is_written_down() const {
  const std::lock_guard lock(mutex_);
  return writes_down_;
}

// The caller holds the mutex.
void step_ledger::note(const ledger_record& x) {
  if (writes_down_)
    unwritten_ += text_of(x) + "\n";
}

void step_ledger::flush() {
  const std::unique_lock of_file(file_mutex_, std::try_to_lock);
  if (!of_file || !file_)
    return;
  std::string lines;
  bool syncs = false;
  {
    const std::lock_guard lock(mutex_);
    lines.swap(unwritten_);
    syncs = std::exchange(syncs_, false);
  }
  if (lines.empty() && !syncs)
    return;
  try {
    if (!lines.empty())
      tell(file_->append_to_whole(lines));
    if (told_written_ && !lines.empty())
      told_written_(file_->size(), lines);
    refused_ = false;
    if (syncs && !file_->sync_beside()) {
      const std::lock_guard lock(mutex_);
      syncs_ = true;
    }
  } catch (const io_error& failure) {
    if (!std::exchange(refused_, true))
      log_warning("{}; the run continues and will try again", failure.what());
    const std::lock_guard lock(mutex_);
    unwritten_.insert(0, lines);
    syncs_ = syncs_ || syncs;
    if (unwritten_.size() <= most_unwritten)
      return;
    log_warning("the ledger stops writing its file: {} bytes could not be written",
                unwritten_.size());
    writes_down_ = false;
    unwritten_ = {};
  }
}

void step_ledger::when_written(written told) {
  const std::lock_guard lock(file_mutex_);
  told_written_ = std::move(told);
}

// The caller holds the file mutex.
void step_ledger::tell(growing_file::past x) {
  if (x == growing_file::past::restored && !std::exchange(restored_, true))
    log_warning(
        "the ledger '{}' was removed while the run writes it: it is written again, complete",
        path_.string());
  if (x == growing_file::past::cut && !std::exchange(cut_, true))
    log_error(
        "the ledger '{}' was made shorter while the run writes it: the missing part is lost, and "
        "the file no longer shows the whole run",
        path_.string());
}

step_ledger::~step_ledger() {
  flush();
  if (!unwritten_.empty())
    log_warning("the end of the ledger is missing: {} bytes could not be written",
                unwritten_.size());
}

void step_ledger::commit(committed_step step) {
  const std::lock_guard lock(mutex_);
  const ledger::committed record{step.at, step.state};
  ensure(step.at.iteration == start_ + states_.size() + 1,
         "LEDGER-1: a step is committed once, after the one before");
  const auto begun = positions_.find(start_);
  const auto before = !whole_.empty()             ? whole_.back().at.skipped
                      : begun != positions_.end() ? begun->second.skipped
                                                  : skipped_steps{};
  states_.push_back(step.state);
  left_out_.push_back(step.at.skipped.iterations > before.iterations);
  whole_.push_back(std::move(step));
  if (whole_.size() > kept_whole)
    whole_.pop_front();
  // Its position record precedes this record.
  syncs_ = syncs_ || local_.contains(record.at.iteration);
  note(record);
}

void step_ledger::replay(const committed_step& step) {
  const std::lock_guard lock(mutex_);
  const auto n = step.at.iteration;
  note(ledger::replayed{n, step.state});
  ensure(n > start_ && n - start_ <= states_.size(), "LEDGER-2: a step that runs again has been");
  if (states_[std::size_t(n - start_ - 1)] == step.state)
    return;
  const auto before = std::find_if(
      whole_.begin(), whole_.end(), [n](const committed_step& x) { return x.at.iteration == n; });
  throw replay_differs(fmt::format(
      "LEDGER-2: step {} ran again and gave another state ({}; before {}){}",
      n,
      to_string(step.state),
      to_string(states_[std::size_t(n - start_ - 1)]),
      before == whole_.end() ? "" : "; it differs in " + differing(before->parts, step.parts)));
}

// The ledger has no file yet: writing these records to a file would repeat them.
void step_ledger::take_up(const std::vector<ledger_record>& all) {
  ensure(!writes_down_, "LEDGER-4: a ledger takes up another one before it writes");
  struct {
    step_ledger& to;
    void operator()(const ledger::begun& x) { to.begin(x.at); }
    void operator()(const ledger::job& x) { to.is_of(x); }
    void operator()(const ledger::committed& x) { to.commit({x.at, x.state, {}}); }
    void operator()(const ledger::replayed& x) {
      to.replay({{x.iteration, 0, {}, {}}, x.state, {}});
    }
    void operator()(const ledger::told& x) { to.tell(x.fact); }
    void operator()(const ledger::restarted& x) { to.add(x.what); }
    void operator()(const ledger::succeeded& x) { to.belongs_to(x.epoch); }
    void operator()(const ledger::keepers& x) { to.keepers(x.of); }
    void operator()(const ledger::avoided& x) { to.avoid(x); }
    void operator()(const ledger::position& x) { to.keep_position(x.at, x.local); }
    void operator()(const ledger::saved& x) { to.saved(x.iteration); }
    void operator()(const ledger::validated& x) { to.validated(x.iteration); }
    void operator()(const ledger::tested&) { to.tested(); }
    void operator()(const ledger::drained& x) { to.drain(x.why); }
    void operator()(const ledger::commanded& x) { to.command(x); }
  } by{*this};
  for (const auto& one : all)
    std::visit(by, one);
}

std::uint64_t step_ledger::newest() const {
  const std::lock_guard lock(mutex_);
  return start_ + states_.size();
}

std::optional<training_position> step_ledger::position(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  for (const auto& x : whole_)
    if (x.at.iteration == iteration)
      return x.at;
  const auto found = positions_.find(iteration);
  return found == positions_.end() ? std::nullopt : std::optional(found->second);
}

void step_ledger::keep_position(const training_position& at, bool local) {
  const std::lock_guard lock(mutex_);
  if (!local)
    local_.erase(at.iteration);
  else if (!positions_.contains(at.iteration))
    local_.insert(at.iteration);
  positions_[at.iteration] = at;
  if (local_.size() > kept_positions) {
    positions_.erase(*local_.begin());
    local_.erase(local_.begin());
  }
  // More positions of saves than that come from failed attempts.
  if (positions_.size() - local_.size() > kept_positions) {
    const auto oldest = std::find_if(positions_.begin(), positions_.end(), [&](const auto& x) {
      return x.first != start_ && x.first != saved_ && !local_.contains(x.first);
    });
    if (oldest != positions_.end())
      positions_.erase(oldest);
  }
  note(ledger::position{at, local});
}

digest step_ledger::state(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return iteration > start_ && iteration - start_ <= states_.size()
             ? states_[std::size_t(iteration - start_ - 1)]
             : digest{};
}

bool step_ledger::was_left_out(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return iteration > start_ && iteration - start_ <= left_out_.size()
         && left_out_[std::size_t(iteration - start_ - 1)];
}

std::uint64_t step_ledger::tell(watched fact) {
  const std::lock_guard lock(mutex_);
  note(ledger::told{told_ + 1, fact});
  facts_.push_back(std::move(fact));
  if (facts_.size() > kept_facts)
    facts_.pop_front();
  return ++told_;
}

std::vector<std::pair<std::uint64_t, watched>> step_ledger::facts() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::uint64_t, watched>> out;
  for (const auto& x : facts_)
    out.emplace_back(told_ - facts_.size() + out.size() + 1, x);
  return out;
}

void step_ledger::add(const restart& x) {
  const std::lock_guard lock(mutex_);
  restarts_.push_back(x);
  note(ledger::restarted{x});
}

std::vector<restart> step_ledger::restarts() const {
  const std::lock_guard lock(mutex_);
  return restarts_;
}

void step_ledger::keepers(std::vector<int> of) {
  const std::lock_guard lock(mutex_);
  keepers_ = std::move(of);
  note(ledger::keepers{keepers_});
}

std::vector<int> step_ledger::keepers() const {
  const std::lock_guard lock(mutex_);
  return keepers_;
}

void step_ledger::avoid(const ledger::avoided& x) {
  const std::lock_guard lock(mutex_);
  if (avoided_.insert(x).second)
    note(x);
}

std::set<ledger::avoided> step_ledger::avoided() const {
  const std::lock_guard lock(mutex_);
  return avoided_;
}

void step_ledger::saved(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  saved_ = std::max(saved_.value_or(0), iteration);
  // Positions of older checkpoints can be read from the checkpoints.
  std::erase_if(positions_,
                [&](const auto& x) { return x.first < iteration && x.first != start_; });
  local_.erase(local_.begin(), local_.lower_bound(iteration));
  syncs_ = true;
  note(ledger::saved{iteration});
}

std::optional<std::uint64_t> step_ledger::newest_saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

void step_ledger::validated(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  validated_ = std::max(validated_.value_or(0), iteration);
  note(ledger::validated{iteration});
}

std::optional<std::uint64_t> step_ledger::newest_validated() const {
  const std::lock_guard lock(mutex_);
  return validated_;
}

void step_ledger::tested() {
  const std::lock_guard lock(mutex_);
  tested_ = true;
  note(ledger::tested{});
}

bool step_ledger::is_tested() const {
  const std::lock_guard lock(mutex_);
  return tested_;
}

void step_ledger::command(const ledger::commanded& x) {
  const std::lock_guard lock(mutex_);
  commands_.push_back(x);
  note(x);
}

std::vector<ledger::commanded> step_ledger::commands() const {
  const std::lock_guard lock(mutex_);
  return commands_;
}

void step_ledger::drain(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (draining_)
    return;
  draining_ = why;
  note(ledger::drained{why});
}

std::optional<std::string> step_ledger::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

}  // namespace troupe::runtime

#include "runtime/device/lane_board.hpp"

#include "runtime/core/process_key.hpp"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <optional>
#include <pthread.h>
#include <set>

namespace troupe::runtime {
namespace {

struct thread_clock {
  clockid_t id = {};
  bool known = false;
};

thread_clock clock_of_thread() {
  static thread_local const thread_clock mine = [] {
    thread_clock out;
    out.known = ::pthread_getcpuclockid(::pthread_self(), &out.id) == 0;
    return out;
  }();
  return mine;
}

std::uint64_t used(const thread_clock& x) {
  timespec now = {};
  if (!x.known || ::clock_gettime(x.id, &now) != 0)
    return 0;
  return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

}  // namespace

struct lane_board::row {
  member about;
  mutable std::mutex turn;  ///< an actor holds it while it handles a message; locked before `mutex`
  std::function<place::waiting()> tell;
  mutable std::mutex mutex;
  std::string work = {};
  std::uint64_t step = 0;
  double patience_now = 1;
  thread_clock clock = {};
  watched_thread watch = {};

  void begin(std::string_view what, std::uint64_t of, std::uint64_t now_ns, double how) {
    const std::lock_guard lock(mutex);
    work.assign(what);
    if (of > 0)
      step = of;
    patience_now = how;
    // On a fiber the thread's CPU time covers other fibers, too.
    clock = running_fiber::current() != nullptr ? thread_clock() : clock_of_thread();
    watch.begin(now_ns);
  }

  void end() {
    const std::lock_guard lock(mutex);
    work.clear();
    watch.end_wait();  // it waits for its next work
  }

  /// Fills in the names that a wait_reason leaves out.
  void name(const wait_reason& why, board_entry& to) const {
    using party = wait_reason::party;
    to.what = why.what;
    switch (why.whom) {
      case party::group:
        if (why.by) {
          auto found = why.by->missing(why.number);
          to.what = std::move(found.what);
          to.whom = std::move(found.whom);
        }
        break;
      case party::process:
        to.whom = {name_by_process_key(why.number)};
        to.on_process = true;
        break;
      case party::communication_lane:
        to.whom = {about.communication_lane};
        break;
      case party::saver:
        to.whom = {about.saver};
        break;
      case party::predecessor:
        to.whom = {fmt::format("the {} before", about.who)};
        break;
      case party::others:
        break;
    }
    std::erase(to.whom, std::string());
  }

  board_entry told() const {
    board_entry out{.who = about.who, .generation = about.generation, .actor = about.actor};
    wait_reason why;
    {
      const std::lock_guard lock(mutex);
      const auto seen = watch.look();
      out.work = work;
      out.step = step;
      out.waits = seen.waits || work.empty();
      out.since_ns = seen.since_ns;
      out.patience = about.patience * patience_now;
      out.cpu_ns = used(clock);
      why = seen.why;
    }
    if (!out.work.empty()) {
      if (out.waits)
        name(why, out);
      return out;
    }
    // A running actor returns above. So an actor that reads the board never locks its own row here.
    place::waiting between;
    if (std::unique_lock mine(turn, std::try_to_lock); mine && tell)
      between = tell();
    out.what = between.what.what;
    out.whom = between.what.whom;
    if (between.step > 0)
      out.step = between.step;
    if (!about.owner.empty()) {
      out.idle = true;
      out.what = "work";
      out.whom = {about.owner};
    }
    return out;
  }
};

struct lane_board::state {
  mutable std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::shared_ptr<row>> rows;
  std::set<std::uint64_t> left_behind;
};

std::shared_ptr<lane_board::state> lane_board::make_state() {
  return std::make_shared<state>();
}

std::shared_ptr<lane_board::place> lane_board::add(member who) {
  auto mine = std::make_shared<row>();
  mine->about = std::move(who);
  mine->watch.end_wait();
  const std::lock_guard lock(state_->mutex);
  const auto number = state_->next++;
  state_->rows[number] = mine;
  return std::make_shared<place>(state_, std::move(mine), number);
}

std::vector<board_entry> lane_board::all() const {
  std::map<std::uint64_t, std::shared_ptr<row>> rows;
  {
    const std::lock_guard lock(state_->mutex);
    rows = state_->rows;
    for (const auto number : state_->left_behind)
      rows.erase(number);
  }
  std::vector<board_entry> out;
  for (const auto& [number, row] : rows) {
    out.push_back(row->told());
    out.back().number = number;
  }
  return out;
}

void lane_board::leave_behind(std::uint64_t number) {
  const std::lock_guard lock(state_->mutex);
  if (state_->rows.contains(number))
    state_->left_behind.insert(number);
}

void lane_board::leave_behind_until(std::uint64_t generation, bool services) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [number, row] : state_->rows) {
    const auto& x = row->about;
    if (x.generation > 0 && x.generation <= generation && (services || !x.service))
      state_->left_behind.insert(number);
  }
}

std::size_t lane_board::left_behind() const {
  const std::lock_guard lock(state_->mutex);
  return state_->left_behind.size();
}

std::size_t lane_board::threads_lost() const {
  const std::lock_guard lock(state_->mutex);
  std::size_t out = 0;
  for (const auto number : state_->left_behind) {
    const auto& row = *state_->rows.at(number);
    const std::lock_guard its(row.mutex);
    if (row.about.shares_thread && !row.work.empty())
      ++out;
  }
  return out;
}

lane_board::place::~place() {
  {
    const std::lock_guard turn(row_->turn);  // an observer may be calling `tell`
    row_->tell = {};
  }
  const std::lock_guard lock(of_->mutex);
  of_->rows.erase(number_);
  of_->left_behind.erase(number_);
}

void lane_board::place::describe_by(std::function<waiting()> tell) {
  const std::lock_guard turn(row_->turn);
  row_->tell = std::move(tell);
}

lane_board::place::at_work::at_work(
    place& of, std::string_view work, std::uint64_t step, std::uint64_t now_ns, double patience)
    : row_(*of.row_), before_(nullptr) {
  row_.begin(work, step, now_ns, patience);
  before_ = watch_of_thread(&row_.watch);
}

lane_board::place::at_work::~at_work() {
  watch_of_thread(before_);
  row_.end();
}

lane_board::place::at_message::at_message(place& of,
                                          std::string_view message,
                                          std::uint64_t step,
                                          std::uint64_t now_ns)
    : turn_(of.row_->turn), row_(*of.row_), before_(nullptr) {
  row_.begin(message, step, now_ns, 1);
  before_ = watch_of_thread(&row_.watch);
}

lane_board::place::at_message::~at_message() {
  watch_of_thread(before_);
  row_.end();
}

}  // namespace troupe::runtime

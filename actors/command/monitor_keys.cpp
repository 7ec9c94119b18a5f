#include "actors/command/monitor_keys.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/watch/send_command.hpp"

#include <exception>
#include <fmt/format.h>
#include <utility>

namespace troupe::command {
namespace {

namespace commands = runtime::commands;

struct question {
  runtime::run_command command;
  const char* text;
};

std::optional<question> question_of(char letter, bool run_is_paused) {
  switch (letter) {
    case 'P':
      if (run_is_paused)
        return question{commands::resume{}, "resume the run"};
      return question{commands::pause{}, "pause the run after this step"};
    case 'S':
      return question{commands::save{}, "save a checkpoint of the newest step"};
    case 'E':
      return question{commands::evaluate{}, "evaluate after this step"};
    case 'X':
      return question{commands::stop{}, "stop the run after this step, with its last save"};
    default:
      return {};
  }
}

}  // namespace

monitor_keys::~monitor_keys() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  if (thread_.joinable())
    thread_.join();
}

const char* monitor_keys::help() {
  return "P pause or resume the run  S save  E evaluate  X stop the run";
}

bool monitor_keys::take(char letter, bool run_is_paused) {
  if (asked_) {
    const auto what = *std::exchange(asked_, std::nullopt);
    if (letter == 'y')
      send(what);
    else
      say("");
    return true;
  }
  const auto asks = question_of(letter, run_is_paused);
  {
    const std::lock_guard lock(mutex_);
    if (sends_)
      return asks.has_value();  // one command at a time
    line_.clear();              // an answer stays until the next key
  }
  if (!asks)
    return false;
  if (!run_.folder) {
    say("commands need the run's folder: use `troupe ctl --at HOST:PORT`");
    return true;
  }
  asked_ = asks->command;
  say(fmt::format("{}?  y yes, other keys no", asks->text));
  return true;
}

void monitor_keys::cancel() {
  if (std::exchange(asked_, std::nullopt))
    say("");
}

std::string monitor_keys::line() const {
  const std::lock_guard lock(mutex_);
  return line_;
}

std::uint64_t monitor_keys::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void monitor_keys::say(std::string line) {
  const std::lock_guard lock(mutex_);
  line_ = std::move(line);
  ++changes_;
}

void monitor_keys::send(const runtime::run_command& what) {
  if (thread_.joinable())
    thread_.join();  // its command has its answer
  {
    const std::lock_guard lock(mutex_);
    sends_ = true;
  }
  say(fmt::format("{}: waiting for the run", runtime::name_of(what)));
  thread_ = runtime::start_thread("command", [this, text = runtime::text_of(what)] {
    std::string answer;
    try {
      auto to = run_.at;
      to.token = runtime::control_token_of(run_);
      answer = runtime::send_command(to, text, [this] {
        const std::lock_guard lock(mutex_);
        return !stopped_;
      });
    } catch (const std::exception& failure) {
      answer = failure.what();
    }
    const std::lock_guard lock(mutex_);
    sends_ = false;
    line_ = std::move(answer);
    ++changes_;
  });
}

}  // namespace troupe::command

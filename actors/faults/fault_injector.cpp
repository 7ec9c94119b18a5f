#include "actors/faults/fault_injector.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/core/waiting.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <stdexcept>
#include <utility>

namespace troupe::actors {
namespace {

std::chrono::microseconds drawn(std::uint64_t seed, std::uint64_t index, int longest_us) {
  return std::chrono::microseconds(std::int64_t(
      runtime::uniform(runtime::random_key(seed, "delay", 0), index) * double(longest_us)));
}

/// True if the actor comes to the moment itself; otherwise another one kills it there.
bool comes_to(const runtime::planted_death& x) {
  using enum runtime::moment_of_step;
  const auto kind = x.kind();
  const auto at = x.at;
  // The first of equal replicas writes the checkpoint.
  const bool of_first = x.who.size() > kind.size() + 1 && x.who[kind.size() + 1] == '0';
  if (at == snapshot && (kind == "lane" || kind == "stage" || kind == "replica"))
    return of_first;
  if (kind == "lane")
    return at != vote && at != decided && at != acknowledged && at != save;
  if (kind == "wire")
    return at == reduce;
  if (kind == "stage" || kind == "replica")
    return at == restore || at == forward || at == vote || at == decided || at == updated
           || at == acknowledged || at == validate;
  if (kind == "supervisor")
    return at == restore || at == forward || at == vote || at == decided || at == updated
           || at == acknowledged || at == snapshot || at == save || at == validate;
  if (kind == "checkpointer")
    return at == save || at == snapshot;
  if (kind == "keeper")
    return at == redeem || at == acknowledged;
  return kind == "shard_writer" && at == save;
}

/// True if another actor that comes to the moment begins the hang.
bool is_told(const runtime::planted_death& x) {
  return x.how == runtime::death_kind::by_hanging
         && (x.kind() == "node" || (x.kind() == "supervisor" && !comes_to(x)));
}

fault_injector::fate fate_of(runtime::death_kind flips) {
  using enum fault_injector::fate;
  return flips == runtime::death_kind::wrong_bits     ? wrong_bits
         : flips == runtime::death_kind::wrong_moment ? wrong_moment
                                                      : wrong_second_moment;
}

/// "loader" for "loader:0", because a process has one.
std::string name_of(std::string who) {
  for (const auto* one : {"loader:0", "checkpointer:0", "monitor:0"})
    if (who == one)
      who.resize(who.size() - 2);
  return who;
}

}  // namespace

fault_injector::fault_injector(const runtime::fault_settings& settings, simulated how)
    : settings_(settings), simulated_(std::move(how)) {
  for (const auto text : runtime::faults_in(settings_.fault)) {
    injected_fault fault{.text = std::string(text)};
    const auto at = text.rfind('@');
    const char* const end = text.data() + text.size();
    const char* stop = nullptr;
    if (at != std::string_view::npos && at > 0) {
      stop = std::from_chars(text.data() + at + 1, end, fault.first).ptr;
      fault.last = fault.first;
      if (stop != end && *stop == '-')
        stop = std::from_chars(stop + 1, end, fault.last).ptr;
    }
    if (stop != end)
      throw runtime::input_error(
          "`faults.fault` '{}' is not of the form ACTOR@STEP or ACTOR@FIRST-LAST, e.g. "
          "stage:0.1@3; "
          "ACTOR is supervisor, node, loader, checkpointer, monitor, replica:R, stage:R.P.T, "
          "lane:R.P.T, wire:R.P.T, nan:R.P.T or nan-once:R.P.T",
          text);
    fault.who = runtime::without_tensor_zero(fault.text.substr(0, at));
    faults_.push_back(std::move(fault));
  }
  for (const auto text : runtime::faults_in(settings_.death)) {
    auto& x = *deaths_.emplace_back(std::make_unique<death>());
    x.what = runtime::planted_death_from(text);
    x.what.who = name_of(x.what.who);
    x.same_before
        = int(std::count_if(deaths_.begin(),
                            deaths_.end(),
                            [&](const auto& other) { return other->what.text == x.what.text; }))
          - 1;
  }
}

fault_injector::fate fault_injector::pass(const std::string& who,
                                          std::uint64_t step,
                                          runtime::moment_of_step at,
                                          bool has_result) const {
  if (deaths_.empty())
    return fate::lives;
  const auto name = runtime::without_tensor_zero(who);
  delay(name, step, at);
  const bool of_others = name == "keeper";  // it gets steps of another process
  for (const auto& x : deaths_) {
    const auto& death = x->what;
    if (death.how == runtime::death_kind::by_delaying || (flips_bit(death.how) && !has_result))
      continue;
    const bool own = death.who == name;
    const bool by_itself
        = comes_to(death) || (death.how == runtime::death_kind::by_hanging && !is_told(death));
    if (death.step != step || death.at != at || (!own && (by_itself || of_others))
        || x->struck.exchange(true))
      continue;
    if (own && simulated_.strikes && !simulated_.strikes(death))
      continue;
    if (own && !is_claimed(*x))
      continue;
    if (own && ends_process(death.how))
      runtime::end_this_process(death.how);
    const auto why = fmt::format("the death planted for {}", death.text);
    if (!own) {
      std::function<void(const std::string&)> kill;
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = enlisted_.find(death.who); found != enlisted_.end())
          kill = found->second;
      }
      if (!kill) {
        x->struck = false;  // the actor does not exist yet: the next call retries
        continue;
      }
      if (!is_claimed(*x))
        continue;
      if (ends_process(death.how))
        runtime::end_this_process(death.how);
      if (is_told(death)) {
        if (simulated_.strikes && !simulated_.strikes(death))
          continue;
        x->asked = true;
      }
      kill(why);
      continue;
    }
    if (flips_bit(death.how))
      return fate_of(death.how);
    if (death.how == runtime::death_kind::by_hanging) {
      if (!simulated_.hang)
        stand_still(*x);
      else if (simulated_.hang(death))
        return fate::lives;
    }
    throw std::runtime_error(why);
  }
  return fate::lives;
}

bool fault_injector::hang_instead(const std::string& who) const {
  for (const auto& x : deaths_) {
    if (x->what.who != who || !x->asked.exchange(false))
      continue;
    if (!simulated_.hang)
      stand_still(*x);
    else if (simulated_.hang(x->what))
      return true;
  }
  return false;
}

void fault_injector::delay(const std::string& who,
                           std::uint64_t step,
                           runtime::moment_of_step at) const {
  constexpr auto longer = std::chrono::milliseconds(100);
  for (const auto& x : deaths_)
    if (x->what.how == runtime::death_kind::by_delaying && x->what.who == who
        && x->what.step <= step && x->what.at == at) {
      x->struck = true;
      runtime::sleep_for(longer);
    }
}

// Not a wait of runtime/core/waiting.hpp: the failure detector must not see a wait.
void fault_injector::stand_still(const death& x) const {
  released_->wait(false);
  throw std::runtime_error(fmt::format("the death planted for {}", x.what.text));
}

void fault_injector::hang(const std::string& who,
                          std::uint64_t step,
                          runtime::moment_of_step at) const {
  delay(who, step, at);
  for (const auto& x : deaths_)
    if (x->what.how == runtime::death_kind::by_hanging && x->what.who == who && x->what.step == step
        && x->what.at == at && !x->struck.exchange(true) && is_claimed(*x))
      stand_still(*x);
}

void fault_injector::enlist(const std::string& who,
                            std::function<void(const std::string&)> kill) const {
  const std::lock_guard lock(mutex_);
  enlisted_.insert_or_assign(runtime::without_tensor_zero(who), std::move(kill));
}

void fault_injector::claim_by(std::function<bool(const runtime::planted_death&)> claims) const {
  const std::lock_guard lock(mutex_);
  claims_ = std::move(claims);
}

// A death that is planted twice strikes twice.
bool fault_injector::is_claimed(const death& x) const {
  std::function<bool(const runtime::planted_death&)> claims;
  {
    const std::lock_guard lock(mutex_);
    claims = claims_;
  }
  auto what = x.what;
  if (x.same_before > 0)
    what.text += fmt::format("#{}", x.same_before + 1);
  return !claims || claims(what);
}

void fault_injector::release() const {
  *released_ = true;
  released_->notify_all();
}

std::vector<std::string> fault_injector::deaths_to_come() const {
  std::vector<std::string> out;
  for (const auto& x : deaths_)
    if (!x->struck)
      out.push_back(x->what.text);
  return out;
}

const fault_injector::injected_fault* fault_injector::find(const std::string& who,
                                                           std::uint64_t step) const {
  for (const auto& x : faults_)
    if (x.first <= step && step <= x.last && x.who == runtime::without_tensor_zero(who))
      return &x;
  return nullptr;
}

bool fault_injector::injects(const std::string& who, std::uint64_t step) const {
  if (faults_.empty())
    return false;
  if (find(who, step) != nullptr)
    return true;
  const auto colon = std::min(who.find(':'), who.size());
  const auto* const once = find(who.substr(0, colon) + "-once" + who.substr(colon), step);
  if (once == nullptr)
    return false;
  const std::lock_guard lock(mutex_);
  return struck_once_.emplace(once, step).second;
}

void fault_injector::inject(const std::string& who, std::uint64_t step) const {
  if (const auto* const found = find(who, step))
    throw std::runtime_error("the fault injected for " + found->text);
}

void fault_injector::delay_lane() const {
  if (settings_.lane_delay_us > 0)
    runtime::sleep_for(drawn(settings_.seed, drawn_++, settings_.lane_delay_us));
}

std::chrono::nanoseconds fault_injector::message_delay(
    std::uint64_t from, std::uint64_t to, std::chrono::steady_clock::time_point now) const {
  const auto wish = now + drawn(settings_.seed, drawn_++, settings_.message_delay_us);
  const std::lock_guard lock(mutex_);
  auto& last = last_[{from, to}];
  last = std::max(wish, last + std::chrono::microseconds(1));
  return last - now;
}

}  // namespace troupe::actors

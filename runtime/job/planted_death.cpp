#include "runtime/job/planted_death.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

constexpr std::array<std::string_view, 13> names = {"restore",
                                                    "forward",
                                                    "input-gradient",
                                                    "weight-gradient",
                                                    "redeem",
                                                    "reduce",
                                                    "vote",
                                                    "decided",
                                                    "updated",
                                                    "acknowledged",
                                                    "snapshot",
                                                    "save",
                                                    "validate"};

/// True if actors of this kind reach this moment by themselves, or receive a message then.
bool may_hang(std::string_view kind, moment_of_step at) {
  using enum moment_of_step;
  if (kind == "lane")
    return at != vote && at != decided && at != acknowledged && at != save;
  if (kind == "wire")
    return at == reduce;
  if (kind == "stage" || kind == "replica")
    return at == restore || at == forward || at == vote || at == decided || at == updated
           || at == acknowledged || at == snapshot || at == validate;
  if (kind == "supervisor" || kind == "node")
    return true;  // the actor that reaches the moment makes them hang
  if (kind == "loader")
    return at == forward;
  if (kind == "checkpointer")
    return at == snapshot || at == save;
  if (kind == "keeper")
    return at == redeem || at == acknowledged;
  if (kind == "shard_writer")
    return at == save;
  return kind == "monitor" && at == acknowledged;
}

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw input_error(
      "`faults.death` '{}' {}; it is ACTOR@STEP:MOMENT or ACTOR@STEP:MOMENT:HOW, e.g. "
      "lane:0.1@3:reduce; MOMENT is {}; HOW is throw, hang, wrong-bits, wrong-moment, "
      "wrong-second-moment, slow, kill, segv, abort or exit",
      text,
      why,
      fmt::join(names, ", "));
}

death_kind kind_from(std::string_view text, std::string_view how) {
  if (how.empty() || how == "throw")
    return death_kind::by_throwing;
  if (how == "hang")
    return death_kind::by_hanging;
  if (how == "wrong-bits")
    return death_kind::wrong_bits;
  if (how == "wrong-moment")
    return death_kind::wrong_moment;
  if (how == "wrong-second-moment")
    return death_kind::wrong_second_moment;
  if (how == "kill")
    return death_kind::by_kill;
  if (how == "segv")
    return death_kind::by_segv;
  if (how == "abort")
    return death_kind::by_abort;
  if (how == "exit")
    return death_kind::by_exit;
  if (how == "slow")
    return death_kind::by_delaying;
  refuse(text, fmt::format("has the unknown HOW '{}'", how));
}

}  // namespace

std::span<const std::string_view> moment_names() {
  return names;
}

std::string_view to_string(moment_of_step x) {
  return names[std::size_t(x)];
}

bool ends_process(death_kind x) {
  return x >= death_kind::by_exit;
}

bool flips_bit(death_kind x) {
  return x == death_kind::wrong_bits || x == death_kind::wrong_moment
         || x == death_kind::wrong_second_moment;
}

void end_this_process(death_kind how) {
  constexpr int planted_exit = 1;
  if (how == death_kind::by_exit)
    ::_exit(planted_exit);
  ::prctl(PR_SET_DUMPABLE, 0);
  const int number = how == death_kind::by_abort  ? SIGABRT
                     : how == death_kind::by_segv ? SIGSEGV
                                                  : SIGKILL;
  ::signal(number, SIG_DFL);
  ::kill(::getpid(), number);
  std::abort();  // the signal was blocked
}

planted_death planted_death_from(std::string_view text) {
  planted_death out{.text = std::string(text)};
  const auto at = text.rfind('@');
  if (at == std::string_view::npos || at == 0)
    refuse(text, "names no actor before an @");
  out.who = without_tensor_zero(text.substr(0, at));
  auto rest = text.substr(at + 1);
  const auto [stop, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), out.step);
  rest.remove_prefix(std::size_t(stop - rest.data()));
  if (failure != std::errc{} || !rest.starts_with(':'))
    refuse(text, "has no step and moment after the @");
  rest.remove_prefix(1);
  const auto colon = std::min(rest.find(':'), rest.size());
  const auto found = std::find(names.begin(), names.end(), rest.substr(0, colon));
  if (found == names.end())
    refuse(text, fmt::format("has the unknown MOMENT '{}'", rest.substr(0, colon)));
  out.at = moment_of_step(found - names.begin());
  out.how = kind_from(text, rest.substr(std::min(colon + 1, rest.size())));
  const auto kind = out.kind();
  using enum moment_of_step;
  if (out.how == death_kind::by_hanging && !may_hang(kind, out.at))
    refuse(text, "cannot hang at this moment: the actor never reaches it by itself");
  if (ends_process(out.how) && kind == "node")
    refuse(text, "does not say which process ends: name a lane or a stage of that process");
  const bool computes = out.at == forward || out.at == input_gradient || out.at == weight_gradient
                        || out.at == redeem;
  if (out.how == death_kind::by_delaying
      && !(kind == "lane" ? computes : kind == "loader" && out.at == forward))
    refuse(text,
           "is slow at a moment that is not measured: a lane is slow at forward, input-gradient, "
           "weight-gradient or redeem, a loader at forward");
  if (out.how == death_kind::wrong_bits && !(kind == "keeper" && out.at == redeem)
      && !(kind == "lane"
           && (out.at == reduce || out.at == updated || out.at == forward
               || out.at == input_gradient || out.at == weight_gradient)))
    refuse(text,
           "flips a bit that no check would detect: the sum of a wrong pass is the same on all "
           "replicas; a check detects it in a lane's reduce or updated, in a keeper's redeem, and "
           "with `recovery.verify_fraction` 1 in a lane's forward, input-gradient or "
           "weight-gradient");
  if (flips_bit(out.how) && out.how != death_kind::wrong_bits
      && !(kind == "lane" && out.at == updated))
    refuse(text, "flips a bit of a moment, but has no moment: plant it in a lane, at updated");
  return out;
}

std::string without_tensor_zero(std::string_view who) {
  if (std::count(who.begin(), who.end(), '.') == 2 && who.ends_with(".0"))
    who.remove_suffix(2);
  return std::string(who);
}

}  // namespace troupe::runtime

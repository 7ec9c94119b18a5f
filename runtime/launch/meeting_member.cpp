#include "runtime/launch/meeting_member.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/process/credentials.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

std::string service_url(const std::string& address, std::uint16_t port, bool tls) {
  const bool v6 = address.find(':') != std::string::npos;
  return fmt::format(
      "{}://{}{}{}:{}", tls ? "https" : "http", v6 ? "[" : "", address, v6 ? "]" : "", port);
}

http::service_address service_at(const std::string& address,
                                 std::uint16_t port,
                                 const std::filesystem::path& keys) {
  http::service_address out{.url = service_url(address, port, !keys.empty())};
  out.token = no_credentials_token;
  if (!keys.empty()) {
    out.token = read_credentials(keys).secret;
    out.authority = credential_files_in(keys).authority;
    out.any_name = true;
  }
  return out;
}

}  // namespace

meeting_member::meeting_member(launch_member self,
                               const std::string& address,
                               std::uint16_t port,
                               const std::filesystem::path& keys)
    : self_(std::move(self)), at_(service_at(address, port, keys)), client_(at_) {}

http::response meeting_member::ask(http::client& by,
                                   const char* target,
                                   const nlohmann::json& what,
                                   const std::function<bool()>& stop) const {
  const auto idle = stop ? [&] { return !stop(); } : std::function<bool()>();
  auto out = by.post(target, json_text_replacing(what), "application/json", idle);
  if (out.status == 401)
    throw input_error(
        "rank 0 at {} does not know this process's credentials: give all ranks the same", at_.url);
  if (out.status != 200 && out.status != launch_end_status)
    throw io_error(
        "rank 0 at {} answered with status {}: {}", at_.url, out.status, shortened(out.body, 300));
  return out;
}

std::variant<launch_begin, launch_end> meeting_member::join(const std::function<bool()>& stop) {
  const auto answer = ask(client_, launch_path::join, json_of(self_), stop);
  if (answer.status == launch_end_status)
    return heard(answer.body);
  return launch_begin_in(answer.body);
}

void meeting_member::report(const std::string& node, const std::string& failure) {
  ask(client_, launch_path::node, {{"rank", self_.rank}, {"node", node}, {"failure", failure}}, {});
}

launch_end meeting_member::wait_for_end() {
  const auto answer = ask(client_, launch_path::end, {{"rank", self_.rank}}, [] { return false; });
  if (answer.status != launch_end_status)
    throw io_error("rank 0 at {} has not told the end of the run", at_.url);
  return heard(answer.body);
}

launch_end meeting_member::heard(const std::string& answer) {
  auto out = launch_end_in(answer);
  try {
    ask(client_, launch_path::heard, {{"rank", self_.rank}}, {});
  } catch (const io_error&) {  // it does not wait any more
  }
  return out;
}

void meeting_member::ask_to_end(const std::string& why) const {
  constexpr auto limit = std::chrono::seconds(5);
  http::client other(at_, {.connect = limit, .silence = limit});
  ask(other, launch_path::ask_to_end, {{"rank", self_.rank}, {"why", why}}, {});
}

}  // namespace troupe::runtime

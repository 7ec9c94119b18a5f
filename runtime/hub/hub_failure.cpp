#include "runtime/hub/hub_failure.hpp"

#include "runtime/core/error.hpp"
#include "runtime/object/http_answer.hpp"

namespace troupe::runtime {
namespace {

std::string tried(const hub_name& name, const std::string& file) {
  const auto model = fmt::format("cannot download '{}'", to_string(name));
  return file.empty() ? model : fmt::format("{}: its '{}'", model, file);
}

std::string access_advice(const hub_name& name, const hub_service& service) {
  const auto page = fmt::format("{}/{}", service.endpoint, name.repository);
  return service.token.empty()
             ? fmt::format(
                 "accept its conditions on {} if it has some, and give an access token: "
                 "set HF_TOKEN, or run `hf auth login`",
                 page)
             : fmt::format(
                 "accept its conditions on {} with the account of the token, and check "
                 "that the token (HF_TOKEN) is valid and may read it",
                 page);
}

}  // namespace

bool may_succeed_later(const hub_answer& x) {
  return x.failure.empty() ? may_pass(x.status) : x.may_pass;
}

void refuse_answer(const hub_answer& x,
                   const hub_name& name,
                   const std::string& file,
                   const hub_service& service) {
  const auto what = tried(name, file);
  if (!x.failure.empty())
    throw io_error(
        "{}: {}; check the network and HF_ENDPOINT ({}). Received files are kept: the same command "
        "continues",
        what,
        x.failure,
        service.endpoint);
  if (x.error_code == "GatedRepo" || x.status == 403)
    throw input_error("{}: HTTP {}: the access to this model is restricted; {}",
                      what,
                      x.status,
                      access_advice(name, service));
  if (x.error_code == "RevisionNotFound")
    throw input_error("{}: HTTP {}: '{}' has no branch, tag or commit '{}'; leave @{} out for main",
                      what,
                      x.status,
                      name.repository,
                      name.revision,
                      name.revision);
  if (x.status == 401)
    throw input_error(
        "{}: HTTP 401: {} has no such model, or it is private or restricted; check the name, or {}",
        what,
        service.endpoint,
        access_advice(name, service));
  if (x.status == 404)
    throw input_error("{}: HTTP 404: {} has no such {}; check the name{}",
                      what,
                      service.endpoint,
                      file.empty() ? "model" : "file",
                      file.empty() ? " and the revision" : "");
  throw io_error("{}: HTTP {} from {}; try again later, or check HF_ENDPOINT",
                 what,
                 x.status,
                 service.endpoint);
}

}  // namespace troupe::runtime

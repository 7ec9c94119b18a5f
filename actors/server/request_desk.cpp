#include "actors/server/request_desk.hpp"

#include <utility>

namespace troupe::actors {

namespace http = runtime::http;

class request_desk::counted_body final : public http::body_source {
 public:
  counted_body(std::shared_ptr<request_desk> at, std::unique_ptr<http::body_source> from)
      : at_(std::move(at)), from_(std::move(from)) {
    ++at_->streams_;
  }
  ~counted_body() override { --at_->streams_; }
  std::optional<std::string> next() override { return from_->next(); }

 private:
  std::shared_ptr<request_desk> at_;
  std::unique_ptr<http::body_source> from_;
};

std::vector<http::server::route> request_desk::routes() {
  const auto take = [desk = shared_from_this()](const asked& x) { desk->put(x); };
  std::vector<http::server::route> out;
  for (const auto* const path : {"/health", "/metrics", "/v1/models", "/v1/models/"})
    out.push_back({http::method::get, path, take});
  for (const auto* const path :
       {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"})
    out.push_back({http::method::post, path, take});
  return out;
}

void request_desk::put(asked x) {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      waiting_.push_back(std::move(x));
      wake = wake_;
    }
  }
  if (x)
    x->answer(http::error_response(503, "this server ends"));
  else if (wake)
    wake();
}

std::optional<request_desk::asked> request_desk::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty())
    return {};
  std::optional out(std::move(waiting_.front()));
  waiting_.pop_front();
  return out;
}

void request_desk::on_request(std::function<void()> wake) {
  {
    const std::lock_guard lock(mutex_);
    wake_ = wake;
  }
  wake();
}

void request_desk::close() {
  std::deque<asked> refused;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_ = {};
    refused.swap(waiting_);
  }
  for (const auto& one : refused)
    one->answer(http::error_response(503, "this server ends"));
}

std::shared_ptr<runtime::part_queue> request_desk::stream(http::exchange& to) {
  auto out = std::make_shared<runtime::part_queue>(~std::size_t(0));
  out->on_part(
      to.stream({.type = "text/event-stream"},
                std::make_unique<counted_body>(shared_from_this(), runtime::body_of(out))));
  return out;
}

}  // namespace troupe::actors

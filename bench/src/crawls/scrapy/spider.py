"""Crawls one site with Scrapy and prints how many pages it had, the seconds it took and the CPU seconds it used."""

import resource
import sys
import time

from scrapy import Spider
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor


class Site(Spider):
    name = "site"
    links = LinkExtractor()
    pages = 0

    def parse(self, response):
        Site.pages += 1
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse)


def main(url, connections):
    settings = {
        "ROBOTSTXT_OBEY": True,
        "LOG_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "AUTOTHROTTLE_ENABLED": False,
        "CONCURRENT_REQUESTS": connections,
        "CONCURRENT_REQUESTS_PER_DOMAIN": connections,
    }
    process = CrawlerProcess(settings)
    process.crawl(Site, start_urls=[url])
    start = time.monotonic()
    process.start()
    seconds = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(Site.pages, seconds, used.ru_utime + used.ru_stime)


main(sys.argv[1], int(sys.argv[2]))

SELECT * FROM bandit_choose(:bandit);
